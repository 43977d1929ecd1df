import { type DestinationStream, pino } from 'pino';

/** Characters that wait for a reader that has stalled. */
const MAX_WAITING = 64 * 1024 ** 2;

/** Where log lines go. */
export interface LogOutput extends DestinationStream {
  /** Writes at once what has not been written. */
  flushSync(): void;
}

/**
 * Standard output for the log. Lines of one turn of the event loop are written together, in the background: under load
 * each turn has many, and each write is a call of the system. A reader that stalls stops nothing: beyond `maxWaiting`
 * lines are lost, and a line says how many once it reads again.
 * @param maxWaiting characters
 */
export function logOutput(maxWaiting = MAX_WAITING): LogOutput {
  const dest = process.stdout.fd ?? 1;
  const output = pino.destination({ dest, maxLength: maxWaiting });
  let lines: string[] = [];
  let lost = 0;
  output.on('drop', (text: string) => {
    lost += text.split('\n').length - 1;
  });
  output.on('drain', () => {
    if (lost === 0) return;
    const line = { level: 'warn', time: new Date().toISOString(), lost, msg: 'nobody read the log: lines are missing' };
    lost = 0;
    output.write(`${JSON.stringify(line)}\n`);
  });
  const take = (): string => {
    const together = lines.join('');
    lines = [];
    return together;
  };
  const pass = (): void => {
    if (lines.length > 0) output.write(take());
  };
  const flushSync = (): void => {
    if (lines.length === 0) return;
    output.flushSync();
    // Given to the output, they would be on their way in the background when the process ends.
    pino.destination({ dest, sync: true }).write(take());
  };
  process.once('exit', flushSync);
  return {
    flushSync,
    write(line) {
      if (lines.length === 0) setImmediate(pass);
      lines.push(line);
    },
  };
}
