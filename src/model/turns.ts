import { setImmediate as nextTurn } from 'node:timers/promises';

/** Milliseconds of work after which everything else of the process gets a turn. */
const MAX_TURN_MS = 10;

/**
 * Splits long work on the main thread into turns of the event loop, so that requests are served in between. Work asks
 * `isOver` between its steps, each of which must be short, and awaits `next` when it is.
 */
export class Turns {
  #began = performance.now();

  /** Whether the present turn has taken its time. */
  get isOver(): boolean {
    return performance.now() - this.#began > MAX_TURN_MS;
  }

  /** Lets everything else have a turn. */
  async next(): Promise<void> {
    await nextTurn();
    this.#began = performance.now();
  }
}
