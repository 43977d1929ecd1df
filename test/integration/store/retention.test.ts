import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { runRetention } from '../../../src/store/retention.ts';
import type { Fence } from '../../../src/store/store.ts';
import { queryRecord } from '../../support/queryRecords.ts';
import { worldOf } from '../../support/world.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const logger = pino({ level: 'silent' });
const world = worldOf('test');
let store: KnexStore;

beforeEach(async () => {
  store = await world.store();
  const records = [queryRecord('old', { created: NOW - 5 * HOUR }), queryRecord('young', { created: NOW - 3 * HOUR })];
  await store.history.insert(records);
  for (const [suffix, lastSeen] of [
    ['aaaaa', NOW - 8 * DAY],
    ['bbbbb', NOW - 6 * DAY],
  ] as const) {
    await store.coordinators.learn({ suffix, cluster: 'a', proxyTo: 'http://a', lastSeen });
  }
});
const run = (fence: Fence | null) =>
  runRetention({
    store,
    historyHours: 4,
    audit: { retention: 24 * 3_600_000, maxEntries: 100 },
    fence: () => fence,
    logger,
    clock: { now: () => NOW, monotonic: () => 0 },
  });
const left = async () => ({
  queries: (await store.history.find({}, { offset: 0, limit: 9 })).records.map((found) => found.queryId),
  coordinators: (await store.coordinators.all()).map((row) => row.suffix).sort(),
});

test('the leader deletes what is too old, and nothing else', async () => {
  await run(await store.leader.acquire('me', 60_000));
  expect(await left()).toEqual({ queries: ['young'], coordinators: ['bbbbb'] });
});

test.each([
  ['a replica that is not the leader', null],
  ['a leader that another has replaced', { holder: 'me', epoch: 0 }],
])('%s deletes nothing', async (_name, fence) => {
  await store.leader.acquire('other', 60_000);
  await run(fence);
  expect(await left()).toEqual({ queries: ['young', 'old'], coordinators: ['aaaaa', 'bbbbb'] });
});
