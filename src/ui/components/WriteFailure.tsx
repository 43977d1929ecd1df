import { Alert, Button, List, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconLock } from '@tabler/icons-react';
import { ApiError, messageOf } from '../client/apiError.ts';

interface WriteFailureProps {
  readonly error: unknown;
  /** The change is on its way once more. */
  readonly busy: boolean;
  /** Makes the change although others own its fields. */
  readonly onForce: () => void;
}

/** Why a change was not stored; where fields belong to another manager, the choice to take them over. */
export function WriteFailure({ error, busy, onForce }: WriteFailureProps) {
  if (!(error instanceof ApiError) || error.code !== 'EG_FIELD_OWNED') {
    return (
      <Alert role="alert" color="red" title="Not stored" icon={<IconAlertTriangle aria-hidden />}>
        {messageOf(error)}
      </Alert>
    );
  }
  return (
    <Alert
      role="alert"
      color="yellow"
      title="Nothing was stored: others own these fields"
      icon={<IconLock aria-hidden />}
    >
      <Stack gap="xs" align="flex-start">
        <List size="sm">
          {error.owners.map(({ field, manager }) => (
            <List.Item key={`${field} ${manager}`}>
              {field}: {manager}
            </List.Item>
          ))}
        </List>
        <Text size="sm">
          Change them there, or take them over: then they are this gateway's, and the other manager may set them again.
        </Text>
        <Button size="xs" color="red.9" onClick={onForce} loading={busy}>
          Take over and save
        </Button>
      </Stack>
    </Alert>
  );
}
