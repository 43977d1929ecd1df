import { expect } from 'vitest';
import { OtherClient, type Target } from './target.ts';

/** Longest CPU time for which a request may block the event loop, milliseconds. */
export const MAX_BLOCKED_MS = 100;

/** What an attack did to the gateway. */
export interface AttackFigures<Answer> {
  readonly answer: Answer;
  /** Longest CPU time for which the event loop was blocked, milliseconds. */
  readonly blockedMs: number;
  /** What the gateway's memory grew by, megabytes. */
  readonly grownMb: number;
}

/** How often an attack is run at most: until it blocks the event loop for less than the limit. */
const MAX_ATTEMPTS = 3;

/**
 * Runs an attack, and expects that it blocks the event loop for `MAX_BLOCKED_MS` at most and that another client is
 * served meanwhile. The target sees to the memory limit.
 *
 * An attack that is over the limit is run again, up to three times, and its least figure counts: work that the request
 * causes is done each time, while a collection of garbage that earlier requests left falls into one of them.
 * @param name of the attack, for the figures that are printed and the message of a failure
 * @param work the attack; gets the number of the attempt, from 0, so that each attempt can change something
 * @param maxAttempts 1 for an attack that has no effect when it is repeated
 * @returns the answer of the first attempt
 */
export async function attack<Answer>(
  target: Target,
  name: string,
  work: (attempt: number) => Promise<Answer>,
  maxAttempts: number = MAX_ATTEMPTS,
): Promise<AttackFigures<Answer>> {
  const first = await attemptAttack(target, name, () => work(0));
  let { blockedMs } = first;
  for (let attempt = 1; attempt < maxAttempts && blockedMs >= MAX_BLOCKED_MS; attempt++) {
    const repeated = await attemptAttack(target, `${name}, attempt ${attempt + 1}`, () => work(attempt));
    blockedMs = Math.min(blockedMs, repeated.blockedMs);
  }
  expect(blockedMs, `${name}: milliseconds for which the event loop was blocked`).toBeLessThan(MAX_BLOCKED_MS);
  return { ...first, blockedMs };
}

async function attemptAttack<Answer>(
  target: Target,
  name: string,
  work: () => Promise<Answer>,
): Promise<AttackFigures<Answer>> {
  const memory = target.memory();
  const other = new OtherClient(target);
  await target.loop();
  const answer = await work();
  const { cpuMs } = await target.loop();
  const { served, slowestMs } = await other.stop();
  const grownMb = target.memory() - memory;
  console.log(
    `${name}: blocked ${Math.round(cpuMs)} ms, ${Math.round(grownMb)} MB more (${Math.round(memory + grownMb)}); others: ${served} served, slowest ${Math.round(slowestMs)} ms`,
  );
  expect(served, `${name}: another client is served`).toBeGreaterThan(0);
  return { answer, blockedMs: cpuMs, grownMb };
}

/** The status and text of an answer. */
export interface Responded {
  readonly status: number;
  readonly text: string;
}

/** Sends a request and reads its answer. */
export async function send(target: Target, path: string, init: RequestInit = {}): Promise<Responded> {
  const response = await fetch(target.url + path, { ...init, signal: AbortSignal.timeout(100_000) });
  return { status: response.status, text: await response.text() };
}

/** Sends a value as JSON. */
export function sendJson(target: Target, method: string, path: string, value: unknown): Promise<Responded> {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  return send(target, path, { method, body, headers: { 'content-type': 'application/json' } });
}
