import { pino } from 'pino';
import { expect, test } from 'vitest';
import { RunningQueries } from '../../../src/gateway/ownership/runningQueries.ts';

const MOST = 100_000;

function runningQueries(): RunningQueries {
  return new RunningQueries({
    repository: {
      put: async () => {},
      remove: async () => {},
      ofCluster: async () => [],
      lastSeen: async () => new Map(),
      deleteBefore: async () => 0,
    },
    outcomes: { ends: async () => new Map() },
    clock: { now: () => Date.UTC(2026, 10, 21, 1, 58, 0), monotonic: () => 0 },
    logger: pino({ level: 'silent' }),
  });
}

test('of more queries than are kept, the oldest are forgotten, however many come', async () => {
  const running = runningQueries();
  const count = MOST + 20_000;
  for (let each = 0; each < count; each++) running.noteActivity(`query-${each}`, 'a', true);
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
  for (let each = 0; each < MOST; each++) running.noteActivity(`query-${each}`, 'a', true);
  expect((await running.ofCluster('a')).queries).toHaveLength(MOST);
});

test('a cluster that answers with one new id after the other displaces its own only', async () => {
  const running = runningQueries();
  for (let each = 0; each < 1_000; each++) running.noteActivity(`a-${each}`, 'a', true);
  for (let each = 0; each < 1.1 * MOST; each++) running.noteActivity(`b-${each}`, 'b', true);
  expect((await running.ofCluster('a')).queries).toHaveLength(1_000);
});

test('what a cluster answers about the query of another one changes nothing', async () => {
  const running = runningQueries();
  running.noteActivity('query', 'a', true);
  running.noteActivity('query', 'b', true);
  running.noteEnd('query', 'b');
  const idsOf = async (cluster: string) => (await running.ofCluster(cluster)).queries.map(({ queryId }) => queryId);
  expect([await idsOf('a'), await idsOf('b')]).toEqual([['query'], []]);
  running.noteEnd('query', 'a');
  expect(await idsOf('a')).toEqual([]);
});
