import { ApiException } from '@kubernetes/client-node';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Condition } from '../../../src/model/resource.ts';
import { EventRecorder } from '../../../src/operator/events/eventRecorder.ts';

const START = Date.UTC(2026, 10, 21, 1, 58, 0);

let events: string[];
/** Error that calls fail with; null: none. */
let failure: number | null;
let warnings: string[];
let recorder: EventRecorder;

beforeEach(() => {
  vi.useFakeTimers({ now: START });
  [events, failure, warnings] = [[], null, []];
  recorder = new EventRecorder(
    {
      createEvent: async ({ regarding, reason, eventTime }) => {
        if (failure !== null) throw new ApiException(failure, 'fails', '{"message":"no"}', {});
        events.push(`${regarding.name} ${reason} ${eventTime.slice(11, 19)}`);
      },
    },
    'me',
    { namespace: 'default', name: 'engine-gateway' },
    { now: () => Date.now(), monotonic: () => Date.now() - START },
    pino({ level: 'warn' }, { write: (line: string) => void warnings.push(JSON.parse(line).msg) }),
  );
});
afterEach(async () => {
  await recorder.stop();
  vi.useRealTimers();
});

/** The health of a cluster changes. */
const turn = (name: string, status: 'True' | 'False'): void => {
  const condition = (value: 'True' | 'False'): Condition => ({
    ...{ type: 'Healthy', status: value, reason: value === 'True' ? 'Healthy' : 'Unhealthy', message: 'x' },
    lastTransitionTime: '2026-11-21T00:00:00Z',
  });
  const resource = {
    ...{ apiVersion: 'enginegateway.dev/v1beta1' as const, kind: 'EngineCluster' as const, spec: {} },
    metadata: {
      ...{ name, namespace: 'default', uid: `u-${name}`, resourceVersion: '1', generation: 1 },
      ...{ creationTimestamp: '2026-11-21T00:00:00Z', labels: {}, annotations: {} },
    },
  };
  const before = condition(status === 'True' ? 'False' : 'True');
  recorder.recordTransition({ resource, condition: condition(status), before });
};

test('each transition is an Event, at most 25 of one object in a row and one more in 5 minutes', async () => {
  for (let second = 0; second < 60; second += 1) {
    turn('a', second % 2 === 0 ? 'False' : 'True');
    await vi.advanceTimersByTimeAsync(1_000);
  }
  turn('b', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(events.slice(0, 2)).toEqual(['a HealthyUnhealthy 01:58:00', 'a Healthy 01:58:01']);
  expect(events).toHaveLength(26);
  expect(events.at(-1)).toBe('b HealthyUnhealthy 01:59:00');
  expect(warnings).toEqual(['event rate limit exceeded; events dropped']);
  await vi.advanceTimersByTimeAsync(300_000);
  turn('a', 'True');
  turn('a', 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(events).toHaveLength(27);
});

test('a crowd waits in a queue with an end, and a failure is reported once', async () => {
  for (let index = 0; index < 5_000; index += 1) turn(`c${index}`, index < 4_900 ? 'True' : 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(events.length).toBeLessThan(5_000);
  expect(events.at(-1)).toBe('c4999 HealthyUnhealthy 01:58:00');
  failure = 403;
  for (let index = 0; index < 3; index += 1) turn(`d${index}`, 'False');
  await vi.advanceTimersByTimeAsync(1_000);
  expect(warnings.filter((warning) => warning === 'failed to record events')).toHaveLength(1);
});
