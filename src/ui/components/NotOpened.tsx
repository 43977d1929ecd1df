import { Alert, Button, Stack, Text } from '@mantine/core';
import { IconInfoCircle } from '@tabler/icons-react';

interface NotOpenedProps {
  /** What the address names, as the start of a sentence. */
  readonly what: string;
  /** Why it is not opened, as a sentence; left out, it is not there. */
  readonly why?: string | undefined;
  readonly onClose: () => void;
}

/** Says why something that the address of a page names does not open, and leads to the page without it. */
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

/** Why somebody without the role ADMIN gets no form. */
export const onlyAdministrators = 'Only administrators (role ADMIN) change it.';
