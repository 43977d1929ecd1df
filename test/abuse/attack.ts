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

/**
 * Runs an attack, and expects that it blocks the event loop for `MAX_BLOCKED_MS` at most and that another client is
 * served meanwhile. The target sees to the memory limit.
 * @param name of the attack, for the figures that are printed and the message of a failure
 */
export async function attack<Answer>(
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
  expect(cpuMs, `${name}: milliseconds for which the event loop was blocked`).toBeLessThan(MAX_BLOCKED_MS);
  return { answer, blockedMs: cpuMs, grownMb };
}

/** The status and text of an answer. */
export interface Answered {
  readonly status: number;
  readonly text: string;
}

/** Sends a request and reads its answer. */
export async function send(target: Target, path: string, init: RequestInit = {}): Promise<Answered> {
  const response = await fetch(target.url + path, { ...init, signal: AbortSignal.timeout(100_000) });
  return { status: response.status, text: await response.text() };
}

/** Sends a value as JSON. */
export function sendJson(target: Target, method: string, path: string, value: unknown): Promise<Answered> {
  const body = typeof value === 'string' ? value : JSON.stringify(value);
  return send(target, path, { method, body, headers: { 'content-type': 'application/json' } });
}
