import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { StatusDraft } from '../../../src/kinds/status.ts';
import { systemClock } from '../../../src/model/clock.ts';
import type { Resource, ResourceKey, ResourceStatus } from '../../../src/model/resource.ts';
import { StatusWriter } from '../../../src/operator/reconcile/statusWriter.ts';
import { resourceOf } from '../../support/resource.ts';

/** Time that the source takes for a write. */
const WRITE_MS = 100;

const resources = new Map<string, Resource>();
/** Writes that were begun, with what they say. */
let begun: { readonly name: string; readonly routed: unknown }[];
let running: number;
let most: number;
let writer: StatusWriter;

const resource = (name: string): Resource => resourceOf('EngineCluster', name);
const draft = (proxyTo: string): StatusDraft => ({
  observedGeneration: 1,
  fields: { proxyTo },
  conditions: [{ type: 'Ready', status: 'True', reason: 'Because', message: proxyTo, observedGeneration: 1 }],
});
const offer = (name: string, proxyTo: string): void => {
  if (!resources.has(name)) resources.set(name, resource(name));
  writer.offer(resources.get(name) as Resource, draft(proxyTo));
};

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  resources.clear();
  begun = [];
  running = 0;
  most = 0;
  writer = new StatusWriter({
    source: {
      get: ({ name }: ResourceKey) => resources.get(name) ?? null,
      patchStatus: async ({ name }: ResourceKey, _uid: string, status: ResourceStatus) => {
        begun.push({ name, routed: (status as { proxyTo?: unknown }).proxyTo });
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, WRITE_MS));
        running -= 1;
        resources.set(name, { ...(resources.get(name) as Resource), status });
      },
    },
    leadership: { isLeader: true, fence: null, noteFenced: () => undefined },
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    onTransition: () => undefined,
  });
});
afterEach(async () => {
  vi.useRealTimers();
  await writer.stop();
});

test('many are written 16 at once, first come first, each as it is when its turn comes', async () => {
  for (let index = 0; index < 100; index += 1) offer(`c${index}`, 'first');
  for (let index = 0; index < 100; index += 1) offer(`c${index}`, 'second');
  await vi.advanceTimersByTimeAsync(7 * WRITE_MS);
  expect(most).toBe(16);
  expect(begun.map(({ name }) => name)).toEqual(Array.from({ length: 100 }, (_, index) => `c${index}`));
  expect(begun.slice(16).every(({ routed }) => routed === 'second')).toBe(true);
});

test('what changes all the time is written within its interval, and keeps none of the others waiting', async () => {
  const changing = Array.from({ length: 16 }, (_, index) => `changing${index}`);
  let round = 0;
  const change = setInterval(() => {
    round += 1;
    for (const name of changing) offer(name, `round ${round}`);
  }, 20);
  await vi.advanceTimersByTimeAsync(1_000);
  for (let index = 0; index < 400; index += 1) offer(`c${index}`, 'only');
  await vi.advanceTimersByTimeAsync(4_000);
  expect(begun.filter(({ routed }) => routed === 'only')).toHaveLength(400);
  await vi.advanceTimersByTimeAsync(60_000);
  clearInterval(change);
  for (const name of changing) {
    const writes = begun.filter((each) => each.name === name).length;
    expect(writes).toBeGreaterThanOrEqual(12);
    expect(writes).toBeLessThanOrEqual(14);
  }
});
