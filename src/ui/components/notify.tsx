import { Button, Group, Text } from '@mantine/core';
import { type NotificationData, notifications } from '@mantine/notifications';
import { messageOf } from '../client/apiError.ts';
import type { ApiResponse } from '../client/call.ts';

type Effects = Pick<ApiResponse<unknown>, 'pending' | 'warnings'>;

/** Time to undo a change from its notification, in milliseconds. */
const UNDO_MS = 12_000;

const show = (data: NotificationData): string =>
  notifications.show({ closeButtonProps: { 'aria-label': 'Close' }, ...data });

/** Shows a failure; stays until it is closed. */
export function notifyFailed(title: string, error: unknown): void {
  show({ title, message: messageOf(error), color: 'red', autoClose: false });
}

/** Shows a successful change, its pending effects, and the gateway's warnings. */
export function notifyWritten(message: string, { pending, warnings }: Effects): void {
  const more = pending === null ? '' : ` It is safe, but the ${pending} is unavailable: it follows by itself.`;
  show({ message: `${message}${more}`, color: 'green', role: 'status', autoClose: 4000 });
  notifyWarnings(warnings);
}

function notifyWarnings(warnings: readonly string[]): void {
  for (const message of warnings) show({ title: 'Mind', message, color: 'yellow', autoClose: 12_000 });
}

/**
 * Shows that a change was made, with a button that undoes it if possible.
 * @param undo makes the opposite change and reports its result; null if impossible
 */
export function notifyUndoable(message: string, effects: Effects, undo: (() => void) | null): void {
  if (undo === null || effects.pending !== null) {
    notifyWritten(message, effects);
    return;
  }
  // The library assigns this id.
  let id = '';
  const takeBack = () => {
    notifications.hide(id);
    undo();
  };
  id = show({
    role: 'status',
    color: 'green',
    autoClose: UNDO_MS,
    message: (
      <Group justify="space-between" gap="xs" wrap="nowrap">
        <Text size="sm">{message}</Text>
        <Button size="compact-sm" variant="default" flex="none" onClick={takeBack}>
          Undo
        </Button>
      </Group>
    ),
  });
  notifyWarnings(effects.warnings);
}
