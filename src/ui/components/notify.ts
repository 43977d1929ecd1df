import { notifications } from '@mantine/notifications';
import { messageOf } from '../client/apiError.ts';
import type { Answer } from '../client/call.ts';

/** Shows that something was done. */
function notifyDone(message: string): void {
  notifications.show({ message, color: 'green', role: 'status', autoClose: 4000, closeButtonProps });
}

/** Shows that something failed; stays until it is closed. */
export function notifyFailed(title: string, error: unknown): void {
  notifications.show({ title, message: messageOf(error), color: 'red', autoClose: false, closeButtonProps });
}

/** Shows that a change was made, what of it is pending, and the gateway's warnings. */
export function notifyWritten(
  message: string,
  { pending, warnings }: Pick<Answer<unknown>, 'pending' | 'warnings'>,
): void {
  notifyDone(
    pending === null ? message : `${message} It is safe, but the ${pending} is unavailable: it follows by itself.`,
  );
  notifyWarnings(warnings);
}

/** Shows what the gateway warns of, beside a change that was made. */
export function notifyWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) {
    notifications.show({ title: 'Mind', message: warning, color: 'yellow', autoClose: 12_000, closeButtonProps });
  }
}

const closeButtonProps = { 'aria-label': 'Close' };
