import { Button, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import type { ApiResponse } from '../client/call.ts';
import { notifyWarnings, notifyWritten } from './notify.ts';

/** Time to undo a change from its notification, in milliseconds. */
const UNDO_MS = 12_000;

/**
 * Shows that a change was made, with a button that undoes it if possible.
 * @param undo makes the opposite change and reports its result; null if impossible
 */
export function notifyUndoable(
  message: string,
  answer: Pick<ApiResponse<unknown>, 'pending' | 'warnings'>,
  undo: (() => void) | null,
): void {
  if (undo === null || answer.pending !== null) {
    notifyWritten(message, answer);
    return;
  }
  // The library assigns this id.
  let id = '';
  const takeBack = () => {
    notifications.hide(id);
    undo();
  };
  id = notifications.show({
    role: 'status',
    color: 'green',
    autoClose: UNDO_MS,
    closeButtonProps: { 'aria-label': 'Close' },
    message: (
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="sm">{message}</Text>
        <Button size="compact-sm" variant="default" flex="none" onClick={takeBack}>
          Undo
        </Button>
      </Group>
    ),
  });
  notifyWarnings(answer.warnings);
}
