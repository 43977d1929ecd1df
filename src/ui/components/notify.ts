import { notifications } from '@mantine/notifications';
import { messageOf } from '../client/apiError.ts';
import type { ApiResponse } from '../client/call.ts';

function notifyDone(message: string): void {
  notifications.show({ message, color: 'green', role: 'status', autoClose: 4000, closeButtonProps });
}

/** Shows a failure; stays until it is closed. */
export function notifyFailed(title: string, error: unknown): void {
  notifications.show({ title, message: messageOf(error), color: 'red', autoClose: false, closeButtonProps });
}

/** Shows a successful change, its pending effects, and the gateway's warnings. */
export function notifyWritten(
  message: string,
  { pending, warnings }: Pick<ApiResponse<unknown>, 'pending' | 'warnings'>,
): void {
  notifyDone(
    pending === null ? message : `${message} It is safe, but the ${pending} is unavailable: it follows by itself.`,
  );
  notifyWarnings(warnings);
}

/** Shows the gateway's warnings about a successful change. */
export function notifyWarnings(warnings: readonly string[]): void {
  for (const warning of warnings) {
    notifications.show({ title: 'Mind', message: warning, color: 'yellow', autoClose: 12_000, closeButtonProps });
  }
}

const closeButtonProps = { 'aria-label': 'Close' };
