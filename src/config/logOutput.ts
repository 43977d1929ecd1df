import { type DestinationStream, pino } from 'pino';

/** Characters that wait for a reader that has stalled. */
const MAX_WAITING = 64 * 1024 ** 2;
/** Characters that are written without waiting for more. */
const PORTION = 64 * 1024;
/** How long a line waits for others at most, milliseconds. */
const PORTION_WAIT_MS = 15;

/** Where log lines go. */
export interface LogOutput extends DestinationStream {
  /** Writes at once what has not been written. */
  flushSync(): void;
}

/**
 * Standard output for the log. Lines of up to 15 ms are written together, in the background: each write is a call of the
 * system on another thread, which under load costs more than the lines themselves. A reader that stalls stops nothing:
 * beyond `maxWaiting` lines are lost, and a line says how many once it reads again.
 * @param maxWaiting characters
 */
export function logOutput(maxWaiting = MAX_WAITING): LogOutput {
  const dest = process.stdout.fd ?? 1;
  const output = pino.destination({ dest, maxLength: maxWaiting });
  let portion = '';
  let isDue = false;
  let ending = false;
  let losses = 0;
  output.on('drop', (text: string) => {
    losses += text.split('\n').length - 1;
  });
  output.on('drain', () => {
    if (losses === 0) return;
    const line = {
      level: 'warn',
      time: new Date().toISOString(),
      lost: losses,
      msg: 'nobody read the log: lines are missing',
    };
    losses = 0;
    output.write(`${JSON.stringify(line)}\n`);
  });
  const take = (): string => {
    const chunk = portion;
    portion = '';
    return chunk;
  };
  const pass = (): void => {
    if (portion !== '') output.write(take());
  };
  const passDue = (): void => {
    isDue = false;
    pass();
  };
  const flushSync = (): void => {
    output.flushSync();
    // Given to the output, they would be on their way in the background when the process ends.
    if (portion !== '') pino.destination({ dest, sync: true }).write(take());
  };
  process.once('exit', () => {
    ending = true;
    flushSync();
  });
  return {
    flushSync,
    write(line) {
      // Before the line is added: the last one always waits here, where `flushSync` finds it.
      if (portion.length + line.length > PORTION) pass();
      portion += line;
      if (ending) flushSync();
      else if (!isDue) {
        isDue = true;
        // What waits keeps no process alive: it is written at its end.
        setTimeout(passDue, PORTION_WAIT_MS).unref();
      }
    },
  };
}
