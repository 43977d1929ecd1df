import { Text } from '@mantine/core';
import { openConfirmModal } from '@mantine/modals';
import { focusedPlace, returnFocusTo } from './returnFocus.ts';

interface Question {
  readonly title: string;
  /** What will happen, in a sentence. */
  readonly text: string;
  /** The deed as a verb, e.g. `Delete`. */
  readonly action: string;
  /** It destroys something. */
  readonly dangerous?: boolean;
}

/** Asks before something is done; answers whether it shall be. The focus returns to what it was asked from. */
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
