import { writeSync } from 'node:fs';
import type { DestinationStream } from 'pino';

/** Bytes that wait for a reader that has stalled. */
const MAX_WAITING = 64 * 1024 ** 2;
/** Characters that are written without waiting for more. */
const PORTION = 64 * 1024;
/** Time that a line waits for others at most, milliseconds. */
const PORTION_WAIT_MS = 15;
/** Time until what a reader did not take is tried again; doubled up to the longest while it takes nothing. Milliseconds. */
const MIN_PAUSE_MS = 1;
const MAX_PAUSE_MS = 20;
/** Time that the end of the process waits for a reader that takes nothing. */
const PATIENCE_MS = 10_000;

/** Nothing wakes who waits for it before the time. */
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Standard output for the log. Lines of up to 15 ms are written together: under load a call of the system for each
 * costs more than the lines themselves. A reader that stalls stops nothing: beyond `maxWaiting` lines are lost, and a
 * line states how many once it reads again.
 * @param maxWaiting bytes
 */
export function logOutput(maxWaiting = MAX_WAITING): LogOutput {
  return new LogOutput(maxWaiting);
}

/**
 * Lines on their way to standard output, in order. They are written by this thread, never by another one: what is on its
 * way there when the process ends is lost. A pipe that is full takes nothing, and does not keep the thread waiting.
 */
class LogOutput implements DestinationStream {
  // Read from the stream, whose making has a pipe not block.
  readonly #descriptor = process.stdout.fd ?? 1;
  readonly #maxWaiting: number;
  /** Lines of the last milliseconds. */
  #portion = '';
  #isEnding = false;
  /** Unread output; of the first buffer `#written` bytes are written. */
  #waiting: Buffer[] = [];
  #written = 0;
  #bytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | null = null;
  #pauseMs = MIN_PAUSE_MS;

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
    process.once('exit', () => {
      this.#isEnding = true;
      this.flushSync();
    });
  }

  write(line: string): void {
    if (this.#portion.length + line.length > PORTION) this.#pass();
    this.#portion += line;
    if (this.#isEnding) this.flushSync();
    else this.#passIn(PORTION_WAIT_MS);
  }

  /** Writes immediately what has not been written; for a few seconds at most where the reader takes nothing. */
  flushSync(): void {
    this.#pass();
    let patience = PATIENCE_MS;
    while (!this.#tryWrite() && patience > 0) {
      patience = this.#pauseMs === MIN_PAUSE_MS ? PATIENCE_MS : patience - this.#pauseMs;
      Atomics.wait(pause, 0, 0, this.#pauseMs);
    }
  }

  /** Lines that wait do not keep the process alive: they are written at its end. */
  #passIn(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#pass();
    }, delayMs).unref();
  }

  /** Writes the portion, or has it wait; lines beyond the bound are lost. */
  #pass(): void {
    const bytes = Buffer.from(this.#portion);
    this.#portion = '';
    if (this.#bytes + bytes.length > this.#maxWaiting) this.#lost += countOf(bytes);
    else if (bytes.length > 0) this.#push(bytes);
    if (!this.#tryWrite()) this.#passIn(this.#pauseMs);
  }

  #push(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
  }

  /** Writes what the reader takes now, and sets the pause until the next try; false when something is left. */
  #tryWrite(): boolean {
    const before = this.#bytes;
    const isDone = this.#writeTaken();
    const isTaken = isDone || this.#bytes < before;
    this.#pauseMs = isTaken ? MIN_PAUSE_MS : Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    return isDone;
  }

  #writeTaken(): boolean {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) {
        if (this.#lost === 0) return true;
        this.#push(lossLine(this.#lost));
        this.#lost = 0;
        continue;
      }
      try {
        const count = writeSync(this.#descriptor, first, this.#written);
        this.#written += count;
        this.#bytes -= count;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        // There is no reader any more, or no space: the lines are lost, and the program continues.
        for (const bytes of this.#waiting) this.#lost += countOf(bytes);
        this.#waiting = [];
        this.#written = 0;
        this.#bytes = 0;
        return true;
      }
      if (this.#written < first.length) continue;
      this.#waiting.shift();
      this.#written = 0;
    }
  }
}

function lossLine(lost: number): Buffer {
  const msg = 'nobody read the log: lines are missing';
  return Buffer.from(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost, msg })}\n`);
}

function countOf(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
}
