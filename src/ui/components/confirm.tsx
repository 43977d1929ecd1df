import { Text } from '@mantine/core';
import { openConfirmModal } from '@mantine/modals';
import { focusedPlace, returnFocusTo } from './returnFocus.ts';

interface Question {
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
