import { setImmediate as nextTurn } from 'node:timers/promises';

/** Maximum milliseconds of work per turn. */
const MAX_TURN_MS = 10;

/**
 * Splits long work on the main thread into turns of the event loop, so that requests are served in between. Work checks
 * `isOver` between its steps, each of which must be short, and then awaits `next`.
 */
export class Turns {
  #began = performance.now();

  get isOver(): boolean {
    return performance.now() - this.#began > MAX_TURN_MS;
  }

  async next(): Promise<void> {
    await nextTurn();
    this.#began = performance.now();
  }
}
