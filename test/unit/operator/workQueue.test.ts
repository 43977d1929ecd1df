import fc from 'fast-check';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { WorkQueue } from '../../../src/operator/reconcile/workQueue.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

const logger = pino({ enabled: false });
const queueOf = (work: (key: string) => Promise<void>, workers = 2) =>
  new WorkQueue({ work, workers, logger, random: () => 0 });

test('keys that wait are merged; one that is worked on is worked on again', async () => {
  const processed: string[] = [];
  const gates: (() => void)[] = [];
  const queue = queueOf((key) => {
    processed.push(key);
    return new Promise((resolve) => gates.push(resolve));
  }, 1);
  for (const key of ['a', 'b', 'b', 'a']) queue.add(key);
  expect(processed).toEqual(['a']);
  expect(queue.depth).toBe(2);
  for (const wanted of [
    ['a', 'b'],
    ['a', 'b', 'a'],
  ]) {
    gates.shift()?.();
    await vi.waitFor(() => expect(processed).toEqual(wanted), { timeout: 15_000 });
  }
  gates.shift()?.();
  await queue.whenIdle();
  expect(queue.depth).toBe(0);
});

test('failures are tried again after 1, 2, 4 … 30 s, until they succeed', async () => {
  const times: number[] = [];
  const started = Date.now();
  const queue = queueOf(async () => {
    times.push(Date.now() - started);
    if (times.length < 8) throw new Error('no');
  });
  queue.add('a');
  await vi.advanceTimersByTimeAsync(300_000);
  expect(times.slice(1).map((time, index) => (time - (times[index] ?? 0)) / 1_000)).toEqual([1, 2, 4, 8, 16, 30, 30]);
});

test('stopping waits for what runs and takes nothing more', async () => {
  let done = 0;
  const queue = queueOf(async () => {
    await new Promise((resolve) => setTimeout(resolve, 100));
    done += 1;
  });
  for (const key of ['a', 'b', 'c']) queue.add(key);
  const stopped = queue.stop();
  queue.add('d');
  await vi.advanceTimersByTimeAsync(1_000);
  await stopped;
  expect(done).toBe(2);
});

test('whatever comes in whatever order, no key is worked on twice at once and the last addition is seen', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.nat(3)), { maxLength: 40 }),
      async (steps) => {
        const running = new Set<string>();
        const wanted = new Map<string, number>();
        const reached = new Map<string, number>();
        const queue = queueOf(async (key) => {
          expect(running.has(key)).toBe(false);
          running.add(key);
          const seen = wanted.get(key) ?? 0;
          await new Promise((resolve) => setTimeout(resolve, 2));
          running.delete(key);
          if (seen % 5 === 4) {
            wanted.set(key, seen + 1);
            throw new Error('once');
          }
          reached.set(key, seen);
        });
        for (const [index, [key, pause]] of steps.entries()) {
          wanted.set(key, index);
          queue.add(key);
          await vi.advanceTimersByTimeAsync(pause);
        }
        await vi.advanceTimersByTimeAsync(60_000);
        expect(reached).toEqual(wanted);
      },
    ),
    { numRuns: 50 },
  );
});
