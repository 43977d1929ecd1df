import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { Drain } from '../../../src/api/clusters.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { postgresql, type TestDatabase } from '../../support/databases.ts';
import { until } from '../../support/gateway.ts';
import { asProcess, type GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { cancel, follow, pathOf, type QueryResults, submit } from '../../support/statementClient.ts';
import { timeOf } from '../../support/stopwatch.ts';
import { worldOf } from '../../support/world.ts';

/** Queries of each kind: those that end within a moment, and those that go on until they have rows of their own. */
const QUERIES = 220;

describe.skipIf(!postgresql.available())('four replicas, each request of a query at another one', () => {
  const world = worldOf('suite');
  let database: TestDatabase;
  let store: KnexStore;
  let engine: SimulatedEngine;
  let replicas: readonly GatewayProcess[] = [];
  let requests = 0;

  const next = (): string => replicas[requests++ % replicas.length]?.url ?? '';
  const declare = (active: boolean) =>
    world.declare(
      manifest('EngineCluster', 'a', { proxyTo: engine.url, routingGroup: 'a', active }),
      manifest('EngineCluster', 'b', { proxyTo: engine.url, routingGroup: 'b' }),
    );
  const begin = () => submit(next(), 'SELECT 1', { headers: { 'X-Engine-Routing-Group': 'a' } });
  const finish = async (page: QueryResults) => {
    let { nextUri } = page;
    while (nextUri !== undefined) ({ nextUri } = await follow(next() + pathOf(nextUri)));
  };
  const beginAll = async (): Promise<QueryResults[]> => {
    const pages: QueryResults[] = [];
    while (pages.length < QUERIES) pages.push(...(await Promise.all(Array.from({ length: 20 }, begin))));
    return pages;
  };
  const rows = async (): Promise<string[]> =>
    (await store.database.knex('eg_running_queries').select('query_id')).map(({ query_id }) => query_id);
  const drains = () =>
    Promise.all(replicas.map(async ({ url }) => (await (await fetch(`${url}/api/clusters/a/drain`)).json()) as Drain));

  beforeAll(async () => {
    database = await postgresql.start();
    const dataStore = await database.create();
    engine = await world.engine({ name: 'engine' });
    await declare(true);
    replicas = await Promise.all(
      [0, 1, 2, 3].map((number) =>
        world.startReady({ dataStore, queryHistory: { spillDirectory: world.path(`spill-${number}`) } }, {}, asProcess),
      ),
    );
    store = await openStore({ ...dataStore, runMigrations: false, logger: pino({ level: 'silent' }) });
  });
  afterAll(async () => {
    await store?.close();
    await database?.dispose();
  });

  test('a query that ended is not running anywhere, and a drain settles within five seconds', async () => {
    const long = await beginAll();
    const ids = new Set(long.map(({ id }) => id));
    await until(async () => (await rows()).filter((id) => ids.has(id)).length === QUERIES, 'rows of all long queries');
    await Promise.all((await beginAll()).map(finish));
    await declare(false);
    // Only those that run are left, at all replicas, before any of them ends.
    await until(async () => {
      const all = await drains();
      return all.every(({ settled, runningQueries }) => settled && runningQueries === QUERIES);
    }, 'the long queries at all replicas');
    await Promise.all(long.slice(1).map(finish));
    expect(await cancel(next() + pathOf(long[0]?.nextUri ?? ''))).toBe(204);
    const settled = async (): Promise<void> => {
      await until(async () => (await drains()).every(({ drained }) => drained), 'all replicas to be drained');
      await until(async () => (await rows()).length === 0, 'no row to be left');
    };
    expect(await timeOf(settled)).toBeLessThan(5_000);

    // Rows that each replica writes show that it has written all that it had before.
    const marks = await Promise.all(
      replicas.map(({ url }) => submit(url, 'SELECT 2', { headers: { 'X-Engine-Routing-Group': 'b' } })),
    );
    await until(async () => (await rows()).length === marks.length, 'rows of the last queries');
    expect((await rows()).sort()).toEqual(marks.map(({ id }) => id).sort());
    expect(await drains()).toMatchObject(replicas.map(() => ({ drained: true, runningQueries: 0 })));
  }, 120_000);
});
