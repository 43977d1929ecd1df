import { pino } from 'pino';
import { expect, test } from 'vitest';
import { SharedCounts } from '../../../src/gateway/admission/sharedCounts.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import type { CounterUse } from '../../../src/store/store.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { limit } from '../../support/limitPolicy.ts';

/** Counts of two groups and two limits, of which one has a rate alone, over what a test says the database has. */
function counted() {
  const table = new RoutingTableHolder();
  const rate = { queries: 10, periodMs: 1_000, burst: 10 };
  table.setInputs({
    clusters: [],
    rules: null,
    admission: {
      groups: groupsOf(groupPolicy('etl', { maxRunning: 9 }), groupPolicy('adhoc', {})),
      limits: [limit({ key: 'team/people', maxRunning: 3, rate }), limit({ key: 'team/fast', maxRunning: null, rate })],
    },
  });
  const database = { inUse: [] as CounterUse[], refused: new Map<string, number>(), isAway: false };
  const counts = new SharedCounts({
    table,
    repository: {
      inUse: async () => database.inUse,
      refusals: async () => new Map(database.refused),
      addRefusals: async (added) => {
        if (database.isAway) throw new Error('away');
        for (const [name, count] of added) database.refused.set(name, (database.refused.get(name) ?? 0) + count);
      },
    },
    logger: pino({ level: 'silent' }),
  });
  return { counts, database };
}

test('are not known before the first look', () => {
  const { counts } = counted();
  expect([counts.group('etl'), counts.limit('team/people')]).toEqual([null, null]);
});

test('are sums over users, without what no limit counts; one that waits for several counters of a limit waits once', async () => {
  const { counts, database } = counted();
  database.inUse = [
    { key: 'group:etl', inUse: 4, waiting: 1 },
    { key: 'queue:group:etl', inUse: 0, waiting: 2 },
    { key: 'queue:group:adhoc', inUse: 0, waiting: 7 },
    { key: 'limit:team/people:ann', inUse: 2, waiting: 1 },
    { key: 'limit:team/people:bob', inUse: 1, waiting: 2 },
    { key: 'rate:team/people:ann', inUse: 0, waiting: 2 },
    { key: 'queue:team/people:ann', inUse: 0, waiting: 1 },
    { key: 'rate:team/fast', inUse: 0, waiting: 5 },
  ];
  await counts.look();
  expect(counts.group('etl')).toEqual({ running: 4, waiting: 2, refused: 0 });
  expect(counts.group('adhoc')).toEqual({ running: null, waiting: 7, refused: 0 });
  expect(counts.limit('team/people')).toEqual({ running: 3, waiting: 3, refused: 0 });
  expect(counts.limit('team/fast')).toEqual({ running: null, waiting: 5, refused: 0 });
});

test('listeners are called when they changed; refusals are kept while the database is unavailable', async () => {
  const { counts, database } = counted();
  let calls = 0;
  const remove = counts.onChange(() => calls++);
  await counts.look();
  await counts.look();
  expect(calls).toBe(1);
  database.isAway = true;
  counts.noteRefused(['group:etl', 'limit:team/people', 'limit:team/people']);
  await counts.look();
  counts.noteRefused(['group:etl']);
  expect([calls, counts.group('etl')?.refused]).toEqual([1, 0]);
  database.isAway = false;
  await counts.look();
  expect([calls, counts.group('etl')?.refused, counts.limit('team/people')?.refused]).toEqual([2, 2, 1]);
  remove();
  counts.noteRefused(['group:etl']);
  await counts.stop();
  expect([calls, database.refused.get('group:etl')]).toEqual([2, 3]);
});
