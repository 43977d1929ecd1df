import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { ClusterChanges } from '../../../src/gateway/health/clusterChanges.ts';
import { RunningQueries } from '../../../src/gateway/ownership/runningQueries.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { follow, submit } from '../../support/statementClient.ts';

const logger = pino({ level: 'silent' });
let folder: string;
let store: KnexStore;
let now = Date.now();
const clock = { now: () => now, monotonic: () => performance.now() };
const replica = () => new RunningQueries({ repository: store.runningQueries, outcomes: store.outcomes, clock, logger });

beforeEach(async () => {
  now = Date.now();
  folder = await mkdtemp(join(tmpdir(), 'running-'));
  store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(folder, 'g.db')}`, runMigrations: true, logger });
});
afterEach(async () => {
  await closeAll();
  await store.close();
  await rm(folder, { recursive: true, force: true });
});

const idsOf = async (running: RunningQueries, cluster: string) =>
  (await running.ofCluster(cluster)).queries.map((query) => query.queryId);

test('queries count from the first answer to the last, or to their cancellation', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a' }));
  const runningQueries = replica();
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], runningQueries });
  const [first, second] = await Promise.all([submit(gateway.url, 'SELECT 1'), submit(gateway.url, 'SELECT 2')]);
  expect((await idsOf(runningQueries, 'a')).sort()).toEqual([first.id, second.id].sort());
  expect(await idsOf(runningQueries, 'b')).toEqual([]);

  let answer = first;
  while (answer.nextUri !== undefined) {
    expect(await idsOf(runningQueries, 'a')).toContain(first.id);
    answer = await follow(answer.nextUri);
  }
  expect(await idsOf(runningQueries, 'a')).toEqual([second.id]);
  await fetch(second.nextUri!, { method: 'DELETE', headers: { 'X-Engine-User': 'test' } });
  expect(await idsOf(runningQueries, 'a')).toEqual([]);
});

test('replicas know of each other, also of a query that one begins and another ends', async () => {
  const [one, two] = [replica(), replica()];
  one.noteActivity('q_1', 'a');
  one.noteActivity('q_2', 'a');
  expect(await idsOf(two, 'a')).toEqual([]);
  await one.stop();
  expect(await idsOf(two, 'a')).toEqual(['q_1', 'q_2']);
  two.noteActivity('q_1', 'a');
  now += 6_000;
  two.noteEnd('q_1', 'a');
  expect(await idsOf(two, 'a')).toEqual(['q_2']);
  await two.stop();
  expect(await idsOf(replica(), 'a')).toEqual(['q_2']);
});

test('a query that nobody asked for in five minutes is none any more', async () => {
  const one = replica();
  one.noteActivity('q_1', 'a');
  await one.stop();
  now += 299_000;
  expect(await idsOf(one, 'a')).toEqual(['q_1']);
  now += 2_000;
  expect([await idsOf(one, 'a'), await idsOf(replica(), 'a')]).toEqual([[], []]);
});

describe('the call', () => {
  let api: ApiServer;
  afterEach(() => api.close());

  test('shows what is left, and when a cluster may be deleted', async () => {
    const running = replica();
    const simulated = { now: () => now, monotonic: () => now };
    api = await startApi({
      runningQueries: (cluster) => running.ofCluster(cluster),
      clusterChanges: (table) => new ClusterChanges(table, simulated),
    });
    const drain = async () => (await api.call('GET', '/api/clusters/a/drain')).json();
    expect((await api.call('GET', '/api/clusters/a/drain')).status).toBe(404);
    api.table.setInputs({ clusters: [clusterAt('a', 'http://a')] });
    running.noteActivity('20261121_015745_00007_kvhrm', 'a');
    const listed = { queryId: '20261121_015745_00007_kvhrm', since: '2026-11-21T01:57:45.000Z' };
    const lastRequest = new Date(now).toISOString();
    expect(await drain()).toEqual({
      cluster: 'a',
      active: true,
      drained: false,
      settled: false,
      complete: true,
      runningQueries: 1,
      oldestSince: listed.since,
      queries: [{ ...listed, lastRequest }],
      reported: null,
    });
    api.table.setInputs({ clusters: [clusterAt('a', 'http://a', { active: false })] });
    api.table.setHealth('a', 'http://a', {
      ...neverChecked,
      status: 'HEALTHY',
      reason: 'ok',
      checkedAt: now,
      running: 3,
      queued: 0,
    });
    expect(await drain()).toMatchObject({
      active: false,
      drained: false,
      reported: { running: 3, queued: 0, checkedAt: lastRequest },
    });
    running.noteEnd('20261121_015745_00007_kvhrm', 'a');
    now += 4_999;
    expect(await drain()).toMatchObject({ drained: false, settled: false, runningQueries: 0 });
    now += 1;
    expect(await drain()).toMatchObject({ drained: true, settled: true, complete: true, oldestSince: null });
  });

  test('says when only this replica could be asked', async () => {
    const running = replica();
    running.noteActivity('q_1', 'a');
    api = await startApi({ runningQueries: (cluster) => running.ofCluster(cluster) });
    api.table.setInputs({ clusters: [clusterAt('a', 'http://a', { active: false })] });
    await store.close();
    expect((await api.call('GET', '/api/clusters/a/drain')).json()).toMatchObject({
      drained: false,
      complete: false,
      runningQueries: 1,
    });
    running.noteEnd('q_1', 'a');
    expect((await api.call('GET', '/api/clusters/a/drain')).json()).toMatchObject({
      drained: false,
      runningQueries: 0,
    });
  });
});
