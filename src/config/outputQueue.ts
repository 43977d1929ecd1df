import { writeSync } from 'node:fs';

/** Time until what a reader did not take is tried again; doubled up to the longest while it takes nothing. Milliseconds. */
const MIN_PAUSE_MS = 1;
const MAX_PAUSE_MS = 20;
/** Time that `flush` waits for a reader that takes nothing. */
const PATIENCE_MS = 10_000;

/** Nothing wakes who waits for it before the time. */
const pause = new Int32Array(new SharedArrayBuffer(4));

export interface OutputQueueOptions {
  /** Number of the open file; a pipe or socket must not block. */
  readonly descriptor: number;
  /** Bytes that wait for a reader that has stalled. */
  readonly maxWaiting: number;
  /** Makes the line that states how many lines were lost; it ends with a line feed. */
  readonly lossLine: (lines: number) => string;
}

/**
 * Lines on their way to a pipe or file, in order. They are written by this thread, never by another one: what is on its
 * way there when the process ends is lost. A pipe that is full takes nothing, and does not keep the thread waiting.
 */
export class OutputQueue {
  readonly #options: OutputQueueOptions;
  /** Unread output; of the first buffer `#written` bytes are written. */
  readonly #waiting: Buffer[] = [];
  #written = 0;
  #bytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | null = null;
  #pauseMs = MIN_PAUSE_MS;

  constructor(options: OutputQueueOptions) {
    this.#options = options;
  }

  /** Writes whole lines, or has them wait. Never waits; lines beyond the bound are lost. */
  add(lines: string): void {
    const bytes = Buffer.from(lines);
    if (this.#bytes + bytes.length > this.#options.maxWaiting) this.#lost += countOf(bytes);
    else this.#push(bytes);
    this.#write();
  }

  /** Writes all that waits, as long as the reader takes something every few seconds. */
  flush(): void {
    let patience = PATIENCE_MS;
    while (!this.#tryWrite() && patience > 0) {
      patience = this.#pauseMs === MIN_PAUSE_MS ? PATIENCE_MS : patience - this.#pauseMs;
      Atomics.wait(pause, 0, 0, this.#pauseMs);
    }
  }

  #push(bytes: Buffer): void {
    this.#waiting.push(bytes);
    this.#bytes += bytes.length;
  }

  #write(): void {
    if (this.#tryWrite() || this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#write();
    }, this.#pauseMs);
    // Unread output does not keep the process alive: it is written at its end.
    this.#timer.unref();
  }

  /** Writes what the reader takes at once, and sets the pause until the next try; false when something is left. */
  #tryWrite(): boolean {
    const before = this.#bytes;
    const isDone = this.#writeTaken();
    const isTaken = isDone || this.#bytes < before;
    this.#pauseMs = isTaken ? MIN_PAUSE_MS : Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    return isDone;
  }

  #writeTaken(): boolean {
    const { descriptor, lossLine } = this.#options;
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) {
        if (this.#lost === 0) return true;
        this.#push(Buffer.from(lossLine(this.#lost)));
        this.#lost = 0;
        continue;
      }
      try {
        const count = writeSync(descriptor, first, this.#written);
        this.#written += count;
        this.#bytes -= count;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        // There is no reader any more, or no space: the lines are lost, and the program continues.
        this.#dropAll();
        return true;
      }
      if (this.#written < first.length) continue;
      this.#waiting.shift();
      this.#written = 0;
    }
  }

  #dropAll(): void {
    for (const bytes of this.#waiting.splice(0)) this.#lost += countOf(bytes);
    this.#written = 0;
    this.#bytes = 0;
  }
}

function countOf(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
}
