import { expect } from 'vitest';
import type { Window } from './browser.ts';

/** Time of the page in which it takes up what the gateway sent, in milliseconds. */
const BREATH_MS = 5;
/** Between two such breaths, in milliseconds: thirty seconds of them are less than the time between two looks of a page. */
const BREATH_INTERVAL_MS = 100;

/** The time at which a clock is stopped must not be over when the browser hears of it. Milliseconds. */
const AHEAD_MS = 20_000;

/**
 * Stops the clock of a page: its timers wait for `expectPushed`, or for `page.clock.resume()`. The window must have been
 * opened with a clock of its own.
 */
export async function stopTime({ page, waiting }: Window): Promise<void> {
  await page.clock.pauseAt(Number(await page.evaluate('Date.now()')) + AHEAD_MS);
  await expect.poll(waiting).toBe(0);
}

/**
 * Expects something to show because the gateway sent it: the clock of the page, which was stopped before, hardly goes on, so
 * that no timer asks for it.
 */
export async function expectPushed({ page }: Window, shows: () => Promise<boolean>): Promise<void> {
  const isShown = async () => {
    await page.clock.runFor(BREATH_MS);
    return await shows();
  };
  await expect.poll(isShown, { interval: BREATH_INTERVAL_MS }).toBe(true);
}
