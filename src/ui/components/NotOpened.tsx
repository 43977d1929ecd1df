import { Alert, Button, Stack, Text } from '@mantine/core';
import { IconInfoCircle } from '@tabler/icons-react';

interface NotOpenedProps {
  /** Subject of the sentence: what the address names. */
  readonly what: string;
  /** The reason as a sentence; by default: it does not exist. */
  readonly why?: string | undefined;
  readonly onClose: () => void;
}

/** Explains why an object in the page's address does not open, and links to the page without it. */
export function NotOpened({ what, why, onClose }: NotOpenedProps) {
  return (
    <Alert
      role="status"
      color={why === undefined ? 'yellow' : 'blue'}
      icon={<IconInfoCircle aria-hidden />}
      title={why === undefined ? `${what} is not there` : `${what} cannot be changed here`}
    >
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {why ?? 'It was deleted or renamed since this address was made, or is of another gateway.'}
        </Text>
        <Button size="xs" variant="default" onClick={onClose}>
          Close
        </Button>
      </Stack>
    </Alert>
  );
}

/** Explains the missing form to users without the role ADMIN. */
export const onlyAdministrators = 'Only administrators (role ADMIN) change it.';
