/** Limits of queries at a gateway as users run it. What holds over replicas is in the tests of faults. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { RoutedQuery } from '../../../src/api/responses/routing.ts';
import { postgresql, type TestDatabase } from '../../support/databases.ts';
import { freePort } from '../../support/freePort.ts';
import { until } from '../../support/gateway.ts';
import { manifest } from '../../support/manifest.ts';
import { follow, pathOf, type QueryResults, runQuery, submit } from '../../support/statementClient.ts';
import { startTcpProxy, type TcpProxy } from '../../support/tcpProxy.ts';
import { TransactionClient } from '../../support/transactionClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
let engine: SimulatedEngine;

beforeAll(async () => {
  engine = await world.engine({ name: 'a' });
  await world.declare(
    manifest('EngineCluster', 'a', { proxyTo: engine.url, routingGroup: 'adhoc' }),
    manifest('EngineCluster', 'one', { proxyTo: engine.url, routingGroup: 'two', maxRunningQueries: 1 }),
    manifest('EngineCluster', 'other', { proxyTo: engine.url, routingGroup: 'two', maxRunningQueries: 1 }),
    manifest('RoutingGroup', 'adhoc', { queue: { hold: '1s' } }),
    manifest('RoutingGroup', 'two', { queue: { hold: '1s', maxQueuedQueries: 1 } }),
    manifest('QueryLimit', 'people', {
      match: { users: [{ value: 'ann' }, { value: 'cid' }] },
      ...{ per: 'User', maxRunningQueries: 1, maxQueuedQueries: 1, message: 'Ask in #data-platform for more.' },
    }),
    manifest('QueryLimit', 'trial', {
      match: { users: [{ value: 'bob' }] },
      per: 'User',
      maxRunningQueries: 1,
      mode: 'Observe',
    }),
    manifest('QueryLimit', 'loops', {
      match: { sources: [{ value: 'loop' }] },
      ...{ per: 'Source', rate: { queries: 3, period: '24h', burst: 3 } },
    }),
    // Digests of `SELECT ? + ?` and of `SELECT 'a'`.
    manifest('QueryLimit', 'dashboard', {
      match: { digests: ['9ae545b6954ccda1', '4c7d428492370e09'], users: [{ value: 'dee' }] },
      ...{ per: 'All', maxRunningQueries: 1 },
    }),
  );
});

const start = async (config: object = {}): Promise<string> =>
  (await world.startReady({ authentication: 'none', ...config })).url;

const finish = async (page: QueryResults, user: string): Promise<QueryResults> =>
  page.nextUri === undefined ? page : finish(await follow(page.nextUri, { user }), user);
const isQueued = ({ id }: QueryResults) => id.endsWith('_queue');

describe('limits', () => {
  let url: string;
  const metric = async (line: string) => (await (await fetch(`${url}/metrics`)).text()).includes(`${line}\n`);
  beforeAll(async () => {
    url = await start();
  });

  test('count each user apart; the next query waits, a further one is refused, and a slot is free with the end', async () => {
    const [first, ofAnother] = [
      await submit(url, 'SELECT 1', { user: 'ann' }),
      await submit(url, 'SELECT 1', { user: 'cid' }),
    ];
    expect([isQueued(first), isQueued(ofAnother)]).toEqual([false, false]);
    expect(await metric('engine_gateway_limit_slots{limit="limit:default/people"} 2')).toBe(true);
    const second = await submit(url, 'SELECT 2', { user: 'ann' });
    expect(isQueued(second)).toBe(true);
    expect((await submit(url, 'SELECT 3', { user: 'ann' })).error).toMatchObject({
      errorName: 'QUERY_QUEUE_FULL',
      message:
        'As many queries as may wait under limit default/people do, 1 (maxQueuedQueries); send the query again later. Ask in #data-platform for more.',
    });
    expect(await metric('engine_gateway_admission_total{answer="refused"} 1')).toBe(true);
    await finish(first, 'ann');
    const { id, error } = await finish(second, 'ann');
    expect(error).toBeUndefined();
    const decision = async () => ((await (await fetch(`${url}/api/queries/${id}`)).json()) as RoutedQuery).decision;
    await expect
      .poll(async () => (await decision())?.admission)
      .toMatch(
        /^limit default\/people of user ann: 1 of 1 running \(maxRunningQueries\); waited \d+\.\d s as 1st of 1 \(fair by user, weight 1\); admitted to a$/,
      );
    await finish(ofAnother, 'cid');
  });

  test('of digests bound a shape whatever its literals, and an exact statement', async () => {
    const user = 'dee';
    const first = await submit(url, 'SELECT -- now\n 1 + 1', { user });
    const prepared = { user, headers: { 'X-Engine-Prepared-Statement': 'p=SELECT%20%3F%20%2B%20%3F' } };
    expect(isQueued(first)).toBe(false);
    const queued: QueryResults[] = [];
    for (const [sql, waits, options] of [
      ['select 2 + 20', true, { user }],
      ["SELECT 'a'", true, { user }],
      ['EXECUTE p USING 3, 4', true, prepared],
      ["SELECT 'b'", false, { user }],
      ['SELECT 2 - 20', false, { user }],
      ['select 2 + 20', false, { user: 'eve' }],
    ] as const) {
      const page = await submit(url, sql, options);
      expect(isQueued(page), sql).toBe(waits);
      queued.push(page);
    }
    const described = { headers: { 'X-Engine-User': user }, body: 'SELECT 5 + 5' };
    const response = await fetch(`${url}/api/explain`, {
      ...{ method: 'POST', body: JSON.stringify(described) },
      headers: { 'Content-Type': 'application/json' },
    });
    expect(await response.json()).toMatchObject({ waitsFor: expect.stringContaining('limit default/dashboard') });
    await Promise.all([first, ...queued].map((page) => finish(page, user)));
  });

  test('of mode observe refuse nothing, and count what would have waited', async () => {
    const pages = [await submit(url, 'SELECT 1', { user: 'bob' }), await submit(url, 'SELECT 2', { user: 'bob' })];
    expect(pages.map(isQueued)).toEqual([false, false]);
    expect(await metric('engine_gateway_limit_observed_total{limit="limit:default/trial"} 1')).toBe(true);
    for (const page of pages) await finish(page, 'bob');
  });

  test('of a rate let a burst begin, and no more', async () => {
    const headers = { 'X-Engine-Source': 'loop' };
    for (let query = 0; query < 3; query++) {
      expect((await runQuery(url, 'SELECT 1', { headers })).error).toBeUndefined();
    }
    expect(isQueued(await submit(url, 'SELECT 1', { headers }))).toBe(true);
  });

  test('of clusters have the others picked; when all are full, queries wait for one', async () => {
    const headers = { 'X-Engine-Routing-Group': 'two' };
    const [first, second] = [await submit(url, 'SELECT 1', { headers }), await submit(url, 'SELECT 2', { headers })];
    expect([first, second].map(isQueued)).toEqual([false, false]);
    const third = submit(url, 'SELECT 3', { headers });
    await until(() => metric('engine_gateway_queue_length{group="two"} 1'), 'the third query to wait');
    expect((await submit(url, 'SELECT 4', { headers })).error?.message).toContain(
      'As many queries as may wait for routing group two do, 1 (queue.maxQueuedQueries)',
    );
    await finish(second, 'test');
    expect((await finish(await third, 'test')).error).toBeUndefined();
    await finish(first, 'test');
  });
});

describe.skipIf(!postgresql.available())('limits over replicas that share no secret but the database', () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  afterAll(async () => {
    await proxy?.close();
    await database?.dispose();
  });

  test('queue what has to wait; without the database they admit or reject, as the configuration states', async () => {
    database = await postgresql.start();
    const dataStore = await database.create();
    const { port, pathname } = new URL(dataStore.jdbcUrl.replace('jdbc:', ''));
    proxy = await startTcpProxy(Number(port));
    const jdbcUrl = `jdbc:postgresql://127.0.0.1:${proxy.port}${pathname}`;
    const password = dataStore.password ?? 'a password';
    const [admitting = '', rejecting = ''] = await Promise.all(
      [{}, { admission: { onDatabaseUnavailable: 'reject' } }].map((config) =>
        start({ ...config, dataStore: { ...dataStore, password, jdbcUrl } }),
      ),
    );
    const first = await submit(admitting, 'SELECT 1', { user: 'cid' });
    const second = await submit(rejecting, 'SELECT 2', { user: 'cid' });
    expect([first, second].map(isQueued)).toEqual([false, true]);
    await finish(first, 'cid');
    const { nextUri = '' } = second;
    expect(
      (await finish(await follow(`${admitting}${pathOf(nextUri)}`, { user: 'cid' }), 'cid')).error,
    ).toBeUndefined();
    proxy.refuse(true);
    proxy.reset();
    const rejected = async () => (await submit(rejecting, 'SELECT 1', { user: 'ann' })).error?.message;
    await expect.poll(rejected).toContain('The database of the gateway is unavailable');
    expect((await runQuery(rejecting, 'SELECT 1', { user: 'dan' })).error).toBeUndefined();
    // For a minute in test/faults/database.test.ts.
    for (const user of ['ann', 'cid', 'ann', 'cid']) {
      expect((await runQuery(admitting, 'SELECT 1', { user })).error).toBeUndefined();
    }
    const running = await submit(admitting, 'SELECT 1', { user: 'ann' });
    // Beyond the limit after `queue.hold`.
    const began = performance.now();
    expect((await runQuery(admitting, 'SELECT 2', { user: 'ann' })).error).toBeUndefined();
    expect(performance.now() - began).toBeGreaterThan(900);
    await finish(running, 'ann');
    proxy.refuse(false);
    await expect.poll(async () => (await runQuery(rejecting, 'SELECT 1', { user: 'ann' })).error).toBeUndefined();
  }, 120_000);
});

describe('queries of a group whose cluster sleeps', () => {
  const own = worldOf('suite');
  let night: SimulatedEngine;
  let url: string;
  const waiting = (group: string, count: number) =>
    until(async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return text.includes(`engine_gateway_queue_length{group="${group}"} ${count}\n`);
    }, `${count} of ${group} to wait`);
  const toGroup = (group: string, user: string) => ({ user, headers: { 'X-Engine-Routing-Group': group } });

  beforeAll(async () => {
    night = await own.engine({ name: 'night', queuedPolls: 0, state: { starting: true } });
    const away = `http://127.0.0.1:${await freePort()}`;
    const waiting = { whenUnavailable: 'Wait' };
    const queue = { hold: '1s', maxWait: '5m', maxQueuedQueries: 2 };
    await own.declare(
      manifest('EngineCluster', 'night-1', { proxyTo: night.url, routingGroup: 'night' }),
      manifest('EngineCluster', 'away-1', { proxyTo: away, routingGroup: 'away' }),
      manifest('EngineCluster', 'adhoc-1', { proxyTo: engine.url, routingGroup: 'adhoc' }),
      manifest('RoutingGroup', 'night', { ...waiting, queue }),
      manifest('RoutingGroup', 'away', { ...waiting, queue: { ...queue, hold: '100ms', maxWait: '1s' } }),
      manifest('RoutingGroup', 'spilling', { ...waiting, queue, fallbacks: ['adhoc'] }),
    );
    const routing = { defaultRoutingGroup: 'night' };
    ({ url } = await own.startReady({ authentication: 'none', routing, monitor: { taskDelay: '500ms' } }));
  });

  test('wait for it and run when it wakes; beyond maxQueuedQueries and after maxWait they are refused, a fallback serves', async () => {
    const leaving = new AbortController();
    const { signal } = leaving;
    const headers = { 'X-Engine-User': 'ann' };
    const gone = fetch(`${url}/v1/statement`, { method: 'POST', body: 'SELECT 0', signal, headers }).catch(() => null);
    await waiting('night', 1);
    leaving.abort();
    await gone;
    await waiting('night', 0);
    const queries = ['ben', 'dan'].map((user) => runQuery(url, 'SELECT 1', { user }));
    await waiting('night', 2);
    expect((await submit(url, 'SELECT 1', { user: 'eve' })).error).toMatchObject({
      ...{ errorName: 'QUERY_QUEUE_FULL', errorType: 'INSUFFICIENT_RESOURCES', errorCode: 131_074 },
    });
    expect(await finish(await submit(url, 'SELECT 1', toGroup('away', 'eve')), 'eve')).toMatchObject({
      error: {
        ...{ errorName: 'EXCEEDED_TIME_LIMIT', errorCode: 131_075 },
        message:
          'No cluster of routing group "away" became available within 1.00s (queue.maxWait); send the query again later.',
      },
    });
    expect((await runQuery(url, 'SELECT 1', toGroup('spilling', 'eve'))).rows).toEqual([[1]]);
    expect(night.queries).toEqual([]);
    night.setState({ starting: false });
    expect((await Promise.all(queries)).map(({ rows }) => rows)).toEqual([[[1]], [[1]]]);
    expect(night.queries).toHaveLength(2);
    await waiting('night', 0);
  });

  test('of a transaction, and calls of kill_query, never wait', async () => {
    const setActive = async (active: boolean) => {
      const [headers, body] = [{ 'content-type': 'application/json' }, JSON.stringify({ active })];
      expect((await fetch(`${url}/api/clusters/night-1/active`, { method: 'PUT', headers, body })).status).toBe(200);
    };
    const client = new TransactionClient([url]);
    expect((await client.run('START TRANSACTION')).error).toBeUndefined();
    await setActive(false);
    const other = runQuery(url, 'SELECT 2', { user: 'ben' });
    await waiting('night', 1);
    const statement = await client.run('SELECT 1');
    expect(statement).toMatchObject({ error: undefined, rows: [[1]] });
    const killed = await submit(url, `CALL system.runtime.kill_query('${statement.queryId}')`, { user: 'test' });
    expect(killed.error).toBeUndefined();
    expect((await client.run('COMMIT')).error).toBeUndefined();
    await waiting('night', 1);
    await setActive(true);
    expect((await other).error).toBeUndefined();
  });
});
