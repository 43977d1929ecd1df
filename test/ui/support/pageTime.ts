import { expect } from 'vitest';
import type { Window } from './browser.ts';

/** Steps in which the time of a page passes, in milliseconds. */
const STEP_MS = 100;
/** The time at which a clock is stopped must not be over when the browser hears of it. Milliseconds. */
const AHEAD_MS = 20_000;

/**
 * Stops the clock of a page: its timers wait for `expectWithin`, or for `page.clock.resume()`. The window must have been
 * opened with a clock of its own.
 */
export async function stopTime({ page, waiting }: Window): Promise<void> {
  await page.clock.pauseAt(Number(await page.evaluate('Date.now()')) + AHEAD_MS);
  await expect.poll(waiting).toBe(0);
}

/**
 * Expects something to show before so much time of a page has passed, whose clock was stopped before. It stands still
 * while the gateway answers and the browser paints, so that the speed of the machine does not count.
 * @param ms time of the page, milliseconds
 * @param shows whether it shows now
 */
export async function expectWithin(
  { page, waiting }: Window,
  ms: number,
  shows: () => Promise<boolean>,
): Promise<void> {
  for (let passed = 0; passed < ms; passed += STEP_MS) {
    await page.clock.runFor(STEP_MS);
    await expect.poll(waiting).toBe(0);
    if (await shows()) return;
  }
  expect.fail(`not shown within ${ms} ms of the page's time`);
}
