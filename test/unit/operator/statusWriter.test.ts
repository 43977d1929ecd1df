import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { StatusDraft } from '../../../src/kinds/status.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { GatewayError } from '../../../src/model/errors.ts';
import type { Resource, ResourceKey, ResourceStatus } from '../../../src/model/resource.ts';
import { StatusWriter, type Transition } from '../../../src/operator/reconcile/statusWriter.ts';
import { FencedWrite } from '../../../src/operator/sources/source.ts';
import { resourceOf } from '../../support/resource.ts';

const fence = { holder: 'me', epoch: 1 };
let leading: boolean;
let failure: Error | null;
let held: Resource;
/** Time and group of every status that was written. */
let written: { readonly at: number; readonly routed: unknown; readonly transition: string | undefined }[];
let fenced: number;
let transitions: Transition[];
let writer: StatusWriter;
let lines: string[];
let tries: number[];

const resource = (uid: string): Resource => resourceOf('EngineCluster', 'a', {}, { uid });
const draft = (proxyTo: string, ready: 'True' | 'False' = 'True'): StatusDraft => ({
  observedGeneration: 1,
  fields: { proxyTo },
  conditions: [{ type: 'Ready', status: ready, reason: 'Because', message: proxyTo, observedGeneration: 1 }],
});
const urls = () => written.map(({ routed }) => routed);

beforeEach(() => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  leading = true;
  failure = null;
  held = resource('u1');
  written = [];
  fenced = 0;
  transitions = [];
  lines = [];
  tries = [];
  writer = new StatusWriter({
    source: {
      get: () => held,
      patchStatus: async (_key: ResourceKey, _uid: string, status: ResourceStatus) => {
        tries.push(systemClock.monotonic());
        if (failure !== null) throw failure;
        const [condition] = status.conditions ?? [];
        written.push({
          at: systemClock.monotonic(),
          routed: (status as { proxyTo?: unknown }).proxyTo,
          transition: condition?.lastTransitionTime,
        });
        held = { ...held, status };
      },
    },
    leadership: {
      get isLeader() {
        return leading;
      },
      fence,
      noteFenced: () => {
        fenced += 1;
      },
    },
    clock: systemClock,
    logger: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }),
    onTransition: (transition) => transitions.push(transition),
  });
});
afterEach(async () => {
  await writer.stop();
  vi.useRealTimers();
});

test('the first change is written at once, what comes within 5 s afterwards as one, the last of them', async () => {
  for (const url of ['one', 'two', 'three']) {
    writer.offer(held, draft(url));
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(urls()).toEqual(['one']);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(urls()).toEqual(['one', 'three']);
  expect((written[1]?.at ?? 0) - (written[0]?.at ?? 0)).toBeGreaterThanOrEqual(5_000);
});

test('what is as it was is not written, nor what went back before its time came', async () => {
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(6_000);
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(6_000);
  expect(urls()).toEqual(['one']);
  writer.offer(held, draft('two'));
  await vi.advanceTimersByTimeAsync(100);
  writer.offer(held, draft('three'));
  writer.offer(held, draft('two'));
  await vi.advanceTimersByTimeAsync(20_000);
  expect(urls()).toEqual(['one', 'two']);
});

test('the time of a condition is that of its transition, and only transitions are reported', async () => {
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(10_000);
  writer.offer(held, draft('two'));
  await vi.advanceTimersByTimeAsync(10_000);
  writer.offer(held, draft('two', 'False'));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(written.map(({ transition }) => transition)).toEqual([
    '2027-01-15T08:00:00Z',
    '2027-01-15T08:00:00Z',
    '2027-01-15T08:00:20Z',
  ]);
  expect(transitions.map(({ before, condition }) => [before?.status, condition.status])).toEqual([
    [undefined, 'True'],
    ['True', 'False'],
  ]);
});

test('only the leader writes; one that learns from the fence that it is not says so', async () => {
  leading = false;
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(urls()).toEqual([]);
  leading = true;
  failure = new FencedWrite();
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(1);
  expect(fenced).toBe(1);
});

test('a write that failed is tried again, not sooner than 5 s later', async () => {
  failure = new Error('away');
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(4_000);
  failure = null;
  expect(urls()).toEqual([]);
  await vi.advanceTimersByTimeAsync(1_500);
  expect(urls()).toEqual(['one']);
});

test('another resource of the same name has a time of its own; what is forgotten or stopped is not written', async () => {
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(10);
  held = resource('u2');
  writer.offer(held, draft('two'));
  await vi.advanceTimersByTimeAsync(10);
  expect(urls()).toEqual(['one', 'two']);
  writer.offer(held, draft('three'));
  writer.forget('EngineCluster/ns/a');
  await vi.advanceTimersByTimeAsync(10_000);
  writer.offer(held, draft('four'));
  await vi.advanceTimersByTimeAsync(10);
  writer.offer(held, draft('five'));
  await writer.stop();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(urls()).toEqual(['one', 'two', 'four']);
});

test('a write that fails is tried again later each time, with one line for its cause', async () => {
  failure = new GatewayError('EG_IMPOSSIBLE', 'the API server refuses EngineCluster ns/a: no');
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(1_000_000);
  const waits = tries.slice(1).map((at, index) => Math.round((at - (tries[index] ?? 0)) / 1_000));
  expect(waits).toEqual([5, 10, 20, 40, 80, 160, 300, 300]);
  expect(lines.length).toBeLessThanOrEqual(4);
  failure = null;
  await vi.advanceTimersByTimeAsync(300_000);
  expect(urls()).toEqual(['one']);
  failure = new GatewayError('EG_IMPOSSIBLE', 'the API server refuses EngineCluster ns/a: no');
  tries = [];
  writer.offer(held, draft('two'));
  await vi.advanceTimersByTimeAsync(6_000);
  expect(tries).toHaveLength(2);
});

test('many resources that fail of one cause give one line', async () => {
  failure = new GatewayError('EG_SOURCE_UNAVAILABLE', 'the API server answers 429: too many', {
    retryAfterSeconds: 60,
  });
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(100_000);
  // Not before the API server asked for: 60 s, and not the 5 s of other failures.
  expect(tries).toHaveLength(2);
  expect((tries[1] ?? 0) - (tries[0] ?? 0)).toBeGreaterThanOrEqual(60_000);
  expect(lines).toHaveLength(1);
});

test('a condition of somebody else is left alone, and one of ours that has gone is taken away', async () => {
  const foreign = {
    type: 'Synced',
    status: 'True',
    reason: 'R',
    message: 'm',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  } as const;
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(10_000);
  held = { ...held, status: { ...held.status, conditions: [...(held.status?.conditions ?? []), foreign] } };
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(urls()).toEqual(['one']);
  const stalled = { ...foreign, type: 'Stalled' };
  held = { ...held, status: { ...held.status, conditions: [...(held.status?.conditions ?? []), stalled] } };
  writer.offer(held, draft('one'));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(urls()).toEqual(['one', 'one']);
});
