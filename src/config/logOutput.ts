import type { DestinationStream } from 'pino';
import { OutputQueue } from './outputQueue.ts';

/** Bytes that wait for a reader that has stalled. */
const MAX_WAITING = 64 * 1024 ** 2;
/** Characters that are written without waiting for more. */
const PORTION = 64 * 1024;
/** Time that a line waits for others at most, milliseconds. */
const PORTION_WAIT_MS = 15;

export interface LogOutput extends DestinationStream {
  /** Writes immediately what has not been written; for a few seconds at most where the reader takes nothing. */
  flushSync(): void;
}

/**
 * Standard output for the log. Lines of up to 15 ms are written together: under load a call of the system for each
 * costs more than the lines themselves. A reader that stalls stops nothing: beyond `maxWaiting` lines are lost, and a
 * line states how many once it reads again.
 * @param maxWaiting bytes
 */
export function logOutput(maxWaiting = MAX_WAITING): LogOutput {
  const queue = new OutputQueue({
    // Read from the stream, whose making has a pipe not block.
    descriptor: process.stdout.fd ?? 1,
    maxWaiting,
    lossLine: (lost) => {
      const msg = 'nobody read the log: lines are missing';
      return `${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost, msg })}\n`;
    },
  });
  let portion = '';
  let isDue = false;
  let ending = false;
  const pass = (): void => {
    if (portion === '') return;
    const lines = portion;
    portion = '';
    queue.add(lines);
  };
  const passDue = (): void => {
    isDue = false;
    pass();
  };
  const flushSync = (): void => {
    pass();
    queue.flush();
  };
  process.once('exit', () => {
    ending = true;
    flushSync();
  });
  return {
    flushSync,
    write(line) {
      if (portion.length + line.length > PORTION) pass();
      portion += line;
      if (ending) flushSync();
      else if (!isDue) {
        isDue = true;
        // Buffered lines do not keep the process alive: they are written at its end.
        setTimeout(passDue, PORTION_WAIT_MS).unref();
      }
    },
  };
}
