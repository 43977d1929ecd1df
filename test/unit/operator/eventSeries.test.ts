import { ApiException } from '@kubernetes/client-node';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Condition } from '../../../src/model/condition.ts';
import { EventRecorder } from '../../../src/operator/events/eventRecorder.ts';
import type { KubeEvent } from '../../../src/operator/sources/kubernetes/kubeApi.ts';

const START = Date.UTC(2026, 10, 21, 1, 58, 0);

/** Events as an API server would have them, by name. */
let events: Map<string, KubeEvent & { series?: { count: number; lastObservedTime: string } }>;
let calls: number;
/** Error that calls fail with; null: none. */
let failure: number | null;
let warnings: string[];
let recorder: EventRecorder;

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  events = new Map();
  calls = 0;
  failure = null;
  warnings = [];
  const call = async (work: () => void): Promise<void> => {
    calls += 1;
    await Promise.resolve();
    if (failure !== null) throw new ApiException(failure, 'fails', '{"message":"no"}', {});
    work();
  };
  recorder = new EventRecorder({
    api: {
      createEvent: (_namespace, body) => call(() => void events.set(body.metadata.name, body)),
      countEvent: (_namespace, name, series) =>
        call(() => {
          const event = events.get(name);
          if (event === undefined) throw new ApiException(404, 'gone', '{}', {});
          events.set(name, { ...event, series });
        }),
    },
    instance: 'me',
    lease: { namespace: 'default', name: 'engine-gateway' },
    clock: { now: () => Date.now(), monotonic: () => Date.now() - START },
    logger: pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line).msg) }),
  });
});
afterEach(async () => {
  const stop = recorder.stop();
  await vi.runAllTimersAsync();
  await stop;
  vi.useRealTimers();
});

const resource = (name: string) => ({
  ...{ apiVersion: 'enginegateway.dev/v1' as const, kind: 'EngineCluster' as const, spec: {} },
  metadata: {
    ...{ name, namespace: 'default', uid: `u-${name}`, resourceVersion: String(calls), generation: 1 },
    ...{ creationTimestamp: '2026-11-21T00:00:00Z', labels: {}, annotations: {} },
  },
});
/** The health of a cluster changes. */
const turn = (name: string, status: 'True' | 'False', message = 'x'): void => {
  const condition = (value: 'True' | 'False'): Condition => ({
    ...{ type: 'Healthy', status: value, reason: value === 'True' ? 'Healthy' : 'Unhealthy', message },
    lastTransitionTime: '2026-11-21T00:00:00Z',
  });
  const before = condition(status === 'True' ? 'False' : 'True');
  recorder.recordTransition({ resource: resource(name), condition: condition(status), before });
};
const summary = (): string[] =>
  [...events.values()].map(
    ({ regarding, reason, eventTime, series }) =>
      `${regarding.name} ${reason} ${eventTime.slice(11, 19)}` +
      (series === undefined ? '' : ` ×${series.count} ${series.lastObservedTime.slice(11, 19)}`),
  );

test('a cluster that flaps has one Event for each state, counted up at once and then once a minute', async () => {
  turn('a', 'False', 'connection refused');
  turn('b', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual(['a HealthyUnhealthy 01:58:00', 'b HealthyUnhealthy 01:58:00']);
  turn('a', 'True');
  turn('a', 'False', 'timed out');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual([
    'a HealthyUnhealthy 01:58:00 ×2 01:58:01',
    'b HealthyUnhealthy 01:58:00',
    'a Healthy 01:58:01',
  ]);
  // Ten minutes, each second: two events, a call a minute for each.
  const before = calls;
  for (let second = 0; second < 600; second++) {
    turn('a', second % 2 === 0 ? 'True' : 'False');
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(calls - before).toBeLessThanOrEqual(24);
  expect(events.size).toBe(3);
  await vi.advanceTimersByTimeAsync(70_000);
  expect(summary()).toEqual([
    'a HealthyUnhealthy 01:58:00 ×302 02:08:01',
    'b HealthyUnhealthy 01:58:00',
    'a Healthy 01:58:01 ×301 02:08:00',
  ]);
});

test('what happens again after six quiet minutes is another Event, and so is another resource of the same name', async () => {
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(361_000);
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual(['a HealthyUnhealthy 01:58:00', 'a HealthyUnhealthy 02:04:01']);
});

test('changes by REST are counted together only if they say the same', async () => {
  const change = (user: string, active: boolean): void => {
    const { namespace, name, uid, resourceVersion } = resource('a').metadata;
    recorder.recordChange({
      ...{ object: 'cluster a', user, roles: ['ADMIN'], recognisedBy: 'session' },
      regarding: { kind: 'EngineCluster', namespace, name, uid, resourceVersion },
      ...{ before: { active: !active }, after: { active } },
    });
  };
  for (const user of ['ann', 'bob', 'ann']) change(user, false);
  change('ann', true);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual([
    'a DeactivatedByRest 01:58:00 ×2 01:58:00',
    'a DeactivatedByRest 01:58:00',
    'a ActivatedByRest 01:58:00',
  ]);
});

test('an Event that the API server has deleted meanwhile is made again, and the count is written at a stop', async () => {
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  events.clear();
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual(['a HealthyUnhealthy 01:58:01']);
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  for (let again = 0; again < 9; again++) turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(summary()).toEqual(['a HealthyUnhealthy 01:58:01 ×2 01:58:02']);
  const stop = recorder.stop();
  await vi.advanceTimersByTimeAsync(1_000);
  await stop;
  expect(summary()).toEqual(['a HealthyUnhealthy 01:58:01 ×11 01:58:03']);
});

test.each([
  [403, 1],
  [500, 11],
])('a count that is answered %i is not tried again at once, and reported once', async (code, most) => {
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  failure = code;
  const before = calls;
  for (let second = 0; second < 600; second++) {
    turn('a', 'False');
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(calls - before).toBeGreaterThan(0);
  expect(calls - before).toBeLessThanOrEqual(most);
  expect(warnings).toEqual(['events cannot be recorded']);
});

test('of many resources the longest unused are forgotten, and a crowd waits in a queue with an end', async () => {
  for (let index = 0; index < 5_000; index++) turn(`c${index}`, 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(events.size).toBe(1_000);
  expect(warnings).toEqual(['too much happened at once; not all of it became events']);
});
