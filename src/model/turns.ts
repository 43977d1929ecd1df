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

/** Runs all steps of a generator; returns its result. */
export function runSteps<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** As `runSteps`, in turns of the event loop. */
export async function runInTurns<T>(steps: Generator<void, T>): Promise<T> {
  const turns = new Turns();
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (turns.isOver) await turns.next();
  }
}
