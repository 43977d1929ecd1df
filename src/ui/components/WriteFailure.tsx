import { Alert, Button, List, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconLock } from '@tabler/icons-react';
import { ApiError, messageOf } from '../client/apiError.ts';

interface WriteFailureProps {
  readonly error: unknown;
  /** True while the change is sent again. */
  readonly busy: boolean;
  readonly onForce: () => void;
}

/** Explains a failed change; offers to take over fields of other managers. */
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
