import { pino } from 'pino';
import { expect, test } from 'vitest';
import { RunningQueries } from '../../../src/gateway/runningQueries.ts';

const MOST = 100_000;

function runningQueries(): RunningQueries {
  return new RunningQueries({
    repository: { put: async () => {}, remove: async () => {}, ofCluster: async () => [], deleteBefore: async () => 0 },
    clock: { now: () => Date.UTC(2026, 10, 21, 1, 58, 0), monotonic: () => 0 },
    logger: pino({ level: 'silent' }),
  });
}

test('of more queries than are kept, the oldest are forgotten, however many come', async () => {
  const running = runningQueries();
  const count = 3 * MOST;
  for (let each = 0; each < count; each++) running.seen(`query-${each}`, 'a', true);
  const { queries } = await running.ofCluster('a');
  expect(queries.length).toBeGreaterThan(0.98 * MOST);
  expect(queries.length).toBeLessThanOrEqual(MOST);
  // The newest ones, without a gap.
  expect(queries.map(({ queryId }) => queryId)).toEqual(
    queries.map((_, place) => `query-${count - queries.length + place}`),
  );
});

test('none is forgotten before there are too many', async () => {
  const running = runningQueries();
  for (let each = 0; each < MOST; each++) running.seen(`query-${each}`, 'a', true);
  expect((await running.ofCluster('a')).queries).toHaveLength(MOST);
});
