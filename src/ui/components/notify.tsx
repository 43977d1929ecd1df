import { Button, Group, Text } from '@mantine/core';
import { openConfirmModal } from '@mantine/modals';
import { type NotificationData, notifications } from '@mantine/notifications';
import { type ApiResponse, messageOf } from '../client/call.ts';
import { focusedPlace, returnFocusTo } from './focus.ts';

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

export interface Question {
  readonly title: string;
  /** Consequence of the action, as a sentence. */
  readonly text: string;
  readonly action: string;
  readonly dangerous?: boolean;
}

/** Asks for confirmation; returns true if the user confirms. The focus returns to the previous element. */
export function confirm({ title, text, action, dangerous = false }: Question): Promise<boolean> {
  const before = focusedPlace();
  return new Promise((resolve) => {
    openConfirmModal({
      title,
      children: <Text size="sm">{text}</Text>,
      labels: { confirm: action, cancel: 'Cancel' },
      confirmProps: dangerous ? { color: 'red.9' } : {},
      onConfirm: () => resolve(true),
      onClose: () => {
        returnFocusTo(before);
        resolve(false);
      },
    });
  });
}
