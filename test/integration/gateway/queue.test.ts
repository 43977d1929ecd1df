import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { RequestAnalyzer } from '../../../src/gateway/proxiedRequest.ts';
import { QueueKey } from '../../../src/gateway/queue/queueKey.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { CountingAdmission } from '../../support/countingAdmission.ts';
import { freePort } from '../../support/freePort.ts';
import {
  closeAll,
  closing,
  clusterAt,
  startGateway,
  startServer,
  storeAway,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';
import { cancel, follow, pathOf, type QueryResults, runQuery, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
let store: KnexStore;
const key = () => new QueueKey('a secret that all replicas share');

beforeEach(async () => {
  store = await world.store();
});
afterEach(closeAll);

let replicas = 0;

/** A gateway that lets everything wait until the test admits it. */
async function gatewayWith(more: Partial<TestGatewayOptions> & { readonly admission?: CountingAdmission } = {}) {
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true, queuedPolls: 0 }));
  const admission = more.admission ?? new CountingAdmission();
  const gateway = await startGateway({
    store,
    clusters: [clusterAt('a', engine.url)],
    queue: { repository: store.queuedQueries, key: key(), replica: `replica${++replicas}` },
    ...more,
    admission,
  });
  return { engine, gateway, admission };
}

const user = ['X-Engine-User', 'test'];

describe('a query that waits', () => {
  test('is answered as by an engine that queues it, and goes on with the answer of the engine', async () => {
    const { gateway, engine, admission } = await gatewayWith();
    const first = await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Source': 'dbt' } });
    expect(first.id).toMatch(/^\d{8}_\d{6}_\d{12}_queue$/);
    expect(first.infoUri).toBe(`${gateway.url}/ui/query.html?${first.id}`);
    expect(first.nextUri).toMatch(new RegExp(`^${gateway.url}/v1/statement/queued/${first.id}/[0-9a-f]{32}/1$`));
    expect(first.stats).toMatchObject({ state: 'QUEUED', queued: true, scheduled: false, nodes: 0, totalSplits: 0 });
    const second = await follow(`${first.nextUri}?maxWait=10ms`);
    const repeated = await follow(`${first.nextUri}?maxWait=10ms`);
    expect(second).toMatchObject({ id: first.id, stats: { state: 'QUEUED' } });
    expect(second.nextUri).toBe(first.nextUri?.replace(/1$/, '2'));
    expect(repeated.nextUri).toBe(second.nextUri);
    expect(engine.requests).toEqual([]);
    expect(await store.queuedQueries.list(10)).toMatchObject([
      { id: first.id, group: 'adhoc', user: 'test', source: 'dbt', state: 'waiting' },
    ]);

    const answer = follow(second.nextUri ?? '');
    admission.next();
    let page: QueryResults = await answer;
    expect(page.id).toMatch(new RegExp(`_${engine.suffix}$`));
    expect(pathOf(page.nextUri ?? '')).toContain(page.id);
    expect(await follow(second.nextUri ?? '')).toEqual(page);
    const rows: unknown[] = [];
    while (page.nextUri !== undefined) {
      page = await follow(page.nextUri);
      rows.push(...(page.data ?? []));
    }
    expect(rows).toEqual([[1]]);
    expect(engine.queries).toMatchObject([{ text: 'SELECT 1' }]);
    expect(gateway.records).toMatchObject([{ queryId: page.id, user: 'test', source: 'dbt', cluster: 'a' }]);
    const row = await store.queuedQueries.get(first.id);
    expect(row).toMatchObject({ state: 'submitted', engineId: page.id });
    expect(gateway.log.filter(({ msg }) => msg === 'query')).toMatchObject([
      { queryId: first.id, queued: true, status: 200 },
      { queryId: page.id, queuedAs: first.id, cluster: 'a', status: 200 },
    ]);
  });

  test('that is admitted while its request is held, is a query like all others', async () => {
    const { gateway, admission } = await gatewayWith({ admission: new CountingAdmission(0, 60_000, 30_000) });
    const query = runQuery(gateway.url, 'SELECT 1');
    await until(() => admission.waiting.length === 1, 'the wait');
    admission.next();
    expect((await query).rows).toEqual([[1]]);
    expect(await store.queuedQueries.list(10)).toEqual([]);
  });

  test('reaches the cluster with the headers, the body and the address of its client', async () => {
    const seen: { headers: NodeJS.Dict<string | string[]>; body: string }[] = [];
    const cluster = await startServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk;
      });
      request.on('end', () => {
        seen.push({ headers: request.headers, body });
        response.writeHead(200, { 'content-type': 'application/json', 'x-engine-set-catalog': 'hive' });
        response.end('{"id":"20261121_000000_00000_abcde","stats":{"state":"FINISHED"}}');
      });
    });
    const { gateway, admission } = await gatewayWith({ clusters: [clusterAt('a', cluster.url)] });
    const sql = `SELECT 'naïve 🚀'`;
    const first = await submit(gateway.url, sql, {
      headers: { Authorization: 'Bearer secret-token', 'X-Engine-Extra-Credential': 'vault=secret-credential' },
    });
    for (const table of ['eg_queued_queries', 'query_history', 'eg_coordinators']) {
      const text = JSON.stringify(await store.database.knex(table));
      for (const secret of ['secret-token', 'secret-credential', 'naïve']) expect(text).not.toContain(secret);
    }
    admission.next();
    const answer = await send(gateway.url, pathOf(first.nextUri ?? ''), { headers: user });
    expect(answer.headers['x-engine-set-catalog']).toBe('hive');
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({
      body: sql,
      headers: {
        authorization: 'Bearer secret-token',
        'x-engine-extra-credential': 'vault=secret-credential',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-host': '127.0.0.1',
        'x-forwarded-port': `${gateway.port}`,
        'x-engine-user': 'test',
        'x-trino-user': 'test',
      },
    });
    const row = await store.database.knex('eg_queued_queries').first();
    expect(row.request).toBeNull();
  });

  test('gets the headers of the answer under the names of its client, and sends both to its cluster', async () => {
    const seen: NodeJS.Dict<string | string[]>[] = [];
    const cluster = await startServer((request, response) => {
      seen.push(request.headers);
      response.writeHead(200, { 'content-type': 'application/json', 'x-engine-set-catalog': 'hive' });
      response.end('{"id":"20261121_000000_00000_abcde","stats":{"state":"FINISHED"}}');
    });
    const { gateway, admission } = await gatewayWith({ clusters: [clusterAt('a', cluster.url)] });
    const first = await submit(gateway.url, 'SELECT 1', { productName: 'Trino', user: 'ann' });
    admission.next();
    const answer = await send(gateway.url, pathOf(first.nextUri ?? ''), { headers: ['X-Trino-User', 'ann'] });
    expect(answer.headers).toMatchObject({ 'x-trino-set-catalog': 'hive' });
    expect(answer.headers).not.toHaveProperty('x-engine-set-catalog');
    expect(seen).toMatchObject([{ 'x-engine-user': 'ann', 'x-trino-user': 'ann' }]);
  });

  test('is refused in the protocol when its time is over', async () => {
    const { gateway, admission, engine } = await gatewayWith({ admission: new CountingAdmission(0, 50) });
    const first = await submit(gateway.url, 'SELECT 1');
    const outcome = await followToEnd(first);
    expect(outcome.error).toMatchObject({
      errorName: 'EXCEEDED_TIME_LIMIT',
      errorCode: 131_075,
      message: 'The query waited for 50 ms',
    });
    expect(outcome.id).toBe(first.id);
    expect(admission.waiting).toEqual([]);
    expect(engine.requests).toEqual([]);
  });

  test('may be refused in the end', async () => {
    const { gateway, admission } = await gatewayWith();
    const first = await submit(gateway.url, 'SELECT 1');
    admission.next({ reason: 'queue_full', message: 'etl is full', queryId: null });
    expect((await follow(first.nextUri ?? '')).error).toMatchObject({
      errorName: 'QUERY_QUEUE_FULL',
      message: 'etl is full',
    });
  });

  test('is cancelled by a DELETE, and gives its place up', async () => {
    const { gateway, admission, engine } = await gatewayWith();
    const first = await submit(gateway.url, 'SELECT 1');
    expect(await cancel(first.nextUri ?? '')).toBe(204);
    expect(admission.waiting).toEqual([]);
    await expect.poll(() => store.queuedQueries.get(first.id)).toBeNull();
    expect((await follow(first.nextUri ?? '')).error).toMatchObject({ errorName: 'NOT_FOUND' });
    expect(engine.requests).toEqual([]);
  });

  test('is cancelled at its cluster once that has it', async () => {
    const { gateway, admission, engine } = await gatewayWith();
    const first = await submit(gateway.url, 'SELECT 1');
    admission.next();
    await expect.poll(async () => (await store.queuedQueries.get(first.id))?.state).toBe('submitted');
    expect(await cancel(first.nextUri ?? '')).toBe(204);
    const { engineId } = (await store.queuedQueries.get(first.id)) ?? {};
    expect(engine.requests.at(-1)).toMatchObject({ method: 'DELETE' });
    expect(JSON.stringify(engine.requests.at(-1))).toContain(engineId);
  });

  test('is not found with a wrong slug, and no database is asked', async () => {
    const { gateway } = await gatewayWith();
    const first = await submit(gateway.url, 'SELECT 1');
    const right = pathOf(first.nextUri ?? '');
    const slug = right.split('/')[5] ?? '';
    // Replicas renew their leases meanwhile.
    const statements: unknown[] = [];
    store.database.knex.on('query', ({ sql, bindings }) => bindings?.includes(first.id) && statements.push(sql));
    for (const wrong of [
      '',
      '0',
      slug.slice(1),
      `${slug}00`,
      slug.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    ]) {
      for (const method of ['GET', 'DELETE']) {
        const path = right.replace(slug, wrong);
        expect([wrong, (await send(gateway.url, path, { method, headers: user })).status]).toEqual([wrong, 404]);
      }
    }
    for (const token of ['', 'x', '-1', '1e3', '99999999999', '1/2']) {
      expect((await send(gateway.url, right.replace(/1$/, token), { headers: user })).status).toBe(404);
    }
    expect(statements).toEqual([]);
  });

  test('is sent to another cluster where one fails before it answers', async () => {
    const broken = `http://127.0.0.1:${await freePort()}`;
    const engine = closing(await startSimulatedEngine({ name: 'b', queuedPolls: 0 }));
    const { gateway, admission } = await gatewayWith({
      clusters: [clusterAt('a', broken), clusterAt('b', engine.url)],
      random: () => 0,
    });
    const first = await submit(gateway.url, 'SELECT 1');
    admission.next();
    expect((await followToEnd(first)).error).toBeUndefined();
    expect(gateway.records).toMatchObject([{ cluster: 'b' }]);
  });

  test('goes back into the queue with its place where no cluster can take it now', async () => {
    const { gateway, admission, engine } = await gatewayWith({ healthy: false });
    const first = await submit(gateway.url, 'SELECT 1');
    admission.next();
    await until(() => admission.waiting.length === 1, 'it waits again');
    expect(admission.waiting[0]?.request.waitedMs).toBeGreaterThan(500);
    expect((await follow(`${first.nextUri}?maxWait=1ms`)).stats.state).toBe('QUEUED');
    gateway.setHealthy('a');
    admission.next();
    expect((await followToEnd(first)).error).toBeUndefined();
    expect(engine.queries).toHaveLength(1);
  });

  test('is answered as one that may have run where the cluster breaks off after it was sent', async () => {
    const cluster = await startServer((request) => void request.resume().on('end', () => request.socket.destroy()));
    const { gateway, admission } = await gatewayWith({
      clusters: [clusterAt('a', cluster.url)],
      settings: { retrySubmissions: 'untilSent' },
    });
    const first = await submit(gateway.url, 'SELECT 1');
    admission.next();
    const { error } = await followToEnd(first);
    expect(error).toMatchObject({ errorName: 'GENERIC_INTERNAL_ERROR' });
    expect(error?.message).toContain('may have run');
  });
});

describe('a query that waits and whose client does not ask for it', () => {
  let ahead = 0;
  const clock = { now: () => Date.now() + ahead, monotonic: () => performance.now() + ahead };
  const pass = async (milliseconds: number) => {
    ahead += milliseconds;
    await store.database.knex('eg_queued_queries').decrement({ created: milliseconds, polled_at: milliseconds });
  };

  test('gives its turn up after half a minute, until its client asks', async () => {
    const { gateway, admission, engine } = await gatewayWith({ clock });
    const [first, second] = [await submit(gateway.url, 'SELECT 1'), await submit(gateway.url, 'SELECT 2')];
    await pass(29_000);
    admission.next();
    await until(() => engine.queries.length === 1, 'the query whose client asked 29 seconds ago');
    await pass(2_000);
    admission.next();
    await expect.poll(() => admission.waiting).toEqual([]);
    expect(engine.queries).toMatchObject([{ text: 'SELECT 1' }]);
    await follow(`${second.nextUri}?maxWait=1ms`);
    await until(() => admission.waiting.length === 1, 'it waits again');
    expect(admission.waiting[0]?.request.waitedMs).toBeGreaterThan(31_000);
    admission.next();
    expect((await followToEnd(second)).error).toBeUndefined();
    expect((await followToEnd(first)).error).toBeUndefined();
  });

  test('is dropped after five minutes', async () => {
    const { gateway, admission, engine } = await gatewayWith({ clock, admission: new CountingAdmission(0, 3_600_000) });
    const first = await submit(gateway.url, 'SELECT 1');
    await pass(301_000);
    await expect.poll(() => store.queuedQueries.get(first.id)).toBeNull();
    expect([admission.waiting, engine.queries]).toEqual([[], []]);
  });
});

describe('kill_query', () => {
  /** A gateway that recognises calls of kill_query; they never wait. */
  async function killing(headers: Readonly<Record<string, string>> = {}) {
    const analyzer: RequestAnalyzer = {
      user: ({ fields }) => ({ user: fields.get('x-engine-user')?.[0] ?? null, userInfo: null }),
      analyze: ({ fields }, body) => ({
        user: { user: fields.get('x-engine-user')?.[0] ?? null, userInfo: null },
        queryProperties: {
          ...sampleRequest.queryProperties!,
          queryId: /kill_query\('(.*?)'/.exec(body?.text ?? '')?.[1] ?? null,
        },
      }),
    };
    const started = await gatewayWith({ analyzer });
    const first = await submit(started.gateway.url, 'SELECT 1', { headers });
    const kill = (more: Readonly<Record<string, string>> = {}) =>
      submit(started.gateway.url, `CALL system.runtime.kill_query('${first.id}', 'no')`, { headers: more });
    return { ...started, first, kill };
  }

  test('ends a query that waits, for the user who sent it with the same credentials', async () => {
    const { kill, first, admission, engine } = await killing({ Authorization: 'Basic secret' });
    expect((await kill()).error).toMatchObject({ errorName: 'PERMISSION_DENIED' });
    expect((await kill({ Authorization: 'Basic other!' })).error).toMatchObject({ errorName: 'PERMISSION_DENIED' });
    expect((await kill({ Authorization: 'Basic secret', 'X-Engine-User': 'mallory' })).error).toBeDefined();
    expect(admission.waiting).toHaveLength(1);
    const answer = await kill({ Authorization: 'Basic secret' });
    expect(answer).toMatchObject({ stats: { state: 'FINISHED' }, updateType: 'CALL' });
    expect(admission.waiting).toEqual([]);
    await expect.poll(() => store.queuedQueries.get(first.id)).toBeNull();
    expect(engine.requests).toEqual([]);
    expect((await kill()).error).toMatchObject({ errorName: 'NOT_FOUND' });
  });
});

test('where pages of engines are not served, the page of a query shows the id that its cluster gave it', async () => {
  const { gateway, admission } = await gatewayWith({ dataPlane: { enginePages: 'off' } });
  const first = await submit(gateway.url, 'SELECT 1');
  const page = `/ui/query.html?${first.id}`;
  expect(await send(gateway.url, page)).toMatchObject({
    status: 200,
    headers: { 'content-type': 'text/html; charset=utf-8', refresh: '2' },
    text: expect.stringContaining('waits for its turn in routing group adhoc'),
  });
  expect((await send(gateway.url, page, { method: 'DELETE' })).status).toBe(405);
  admission.next();
  await expect.poll(async () => (await store.queuedQueries.get(first.id))?.state).toBe('submitted');
  const { engineId } = (await store.queuedQueries.get(first.id)) ?? {};
  const shown = await send(gateway.url, page);
  expect([shown.status, shown.text.includes(`A cluster has it, as ${engineId}.`)]).toEqual([200, true]);
  expect(shown.headers.refresh).toBeUndefined();
  expect((await send(gateway.url, '/ui/query.html?20261121_000000_000000000000_queue')).status).toBe(404);
});

/** Follows a query to its end, as clients do. */
async function followToEnd(first: QueryResults): Promise<QueryResults> {
  let page = first;
  while (page.nextUri !== undefined) page = await follow(page.nextUri);
  return page;
}

describe('two replicas', () => {
  async function pair(there = new CountingAdmission(1_000)) {
    const one = await gatewayWith();
    const other = await startGateway({
      store,
      clusters: [clusterAt('a', one.engine.url)],
      queue: { repository: store.queuedQueries, key: key(), replica: `replica${++replicas}` },
      admission: there,
    });
    return { ...one, other, at: (uri = '') => `${other.url}${pathOf(uri)}` };
  }

  test('a request at another replica waits on the row, and has the same answer', async () => {
    const { gateway, admission, engine, at } = await pair();
    const first = await submit(gateway.url, 'SELECT 1');
    const waiting = await follow(`${at(first.nextUri)}?maxWait=300ms`);
    expect(waiting).toMatchObject({ id: first.id, stats: { state: 'QUEUED' } });
    const there = follow(at(first.nextUri));
    admission.next();
    const page = await there;
    expect(page.id).toMatch(new RegExp(`_${engine.suffix}$`));
    expect((await follow(first.nextUri ?? '')).id).toBe(page.id);
    expect(engine.queries).toHaveLength(1);
  });

  test('a query that was moved first stays so where its replica dies', async () => {
    const there = new CountingAdmission();
    const { gateway, admission, other, engine, at } = await pair(there);
    const [first, second] = [await submit(gateway.url, 'SELECT 1'), await submit(gateway.url, 'SELECT 2')];
    expect(await store.queuedQueries.moveFirst(second.id)).toBe(true);
    const [, moved] = admission.waiting;
    await until(() => admission.waiting[0] === moved, 'the move');
    await store.queuedQueries.renew(`replica${replicas - 1}`, -1);
    for (const query of [first, second]) {
      await follow(`${at(query.nextUri)}?maxWait=1ms`);
      await until(
        async () => (await store.queuedQueries.get(query.id))?.replica === `replica${replicas}`,
        'the other one',
      );
    }
    await until(() => there.waiting.length === 2, 'both wait there');
    there.next();
    expect((await followToEnd(await follow(`${other.url}${pathOf(second.nextUri ?? '')}`))).error).toBeUndefined();
    expect(engine.queries.map(({ text }) => text)).toEqual(['SELECT 2']);
  });

  test('a query of a dead replica goes on at the next one that its client asks, once', async () => {
    const { gateway, engine, at } = await pair();
    const first = await submit(gateway.url, 'SELECT 1');
    await store.queuedQueries.renew(`replica${replicas - 1}`, -1);
    const pages = await Promise.all(Array.from({ length: 4 }, () => follow(at(first.nextUri))));
    const outcome = await followToEnd(pages.at(-1) as QueryResults);
    expect(outcome.error).toBeUndefined();
    expect(engine.queries).toHaveLength(1);
  });

  test('a query whose replica died while it was sent is never sent again: its client learns that it may have run', async () => {
    const { gateway, engine, at } = await pair();
    const first = await submit(gateway.url, 'SELECT 1');
    const holder = `replica${replicas - 1}`;
    await store.queuedQueries.apply('begin', first.id, holder);
    await store.queuedQueries.renew(holder, -1);
    const { error } = await followToEnd(await follow(at(first.nextUri)));
    expect(error?.message).toContain('may have run');
    expect(engine.queries).toEqual([]);
  });

  test('a replica that stops hands over what waits, also what is held still', async () => {
    const { gateway, engine, at, admission } = await pair();
    const first = await submit(gateway.url, 'SELECT 1');
    const poll = follow(first.nextUri ?? '');
    await until(() => admission.waiting.length === 1, 'the wait');
    gateway.dataPlane.rejectSubmissions();
    expect((await poll).stats.state).toBe('QUEUED');
    expect(admission.waiting).toEqual([]);
    const outcome = await followToEnd(await follow(at(first.nextUri)));
    expect(outcome.error).toBeUndefined();
    expect(engine.queries).toHaveLength(1);
  });

  test('a held submission is put into the queue by a stop', async () => {
    const { gateway, admission, engine } = await gatewayWith({ admission: new CountingAdmission(0, 60_000, 60_000) });
    const next = await gatewayWith({ admission: new CountingAdmission(9), clusters: [clusterAt('a', engine.url)] });
    const submitted = submit(gateway.url, 'SELECT 1');
    await until(() => admission.waiting.length === 1, 'the wait');
    gateway.dataPlane.rejectSubmissions();
    const first = await submitted;
    expect(first.stats.state).toBe('QUEUED');
    const outcome = await followToEnd(await follow(`${next.gateway.url}${pathOf(first.nextUri ?? '')}`));
    expect(outcome.error).toBeUndefined();
    expect(engine.queries).toHaveLength(1);
  });
});

test('a submission is refused, and may be sent again, while the database cannot keep it', async () => {
  const { gateway, admission } = await gatewayWith({ store: storeAway });
  await store.database.knex.schema.dropTable('eg_queued_queries');
  const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1', headers: user });
  expect(answer).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
  expect(admission.waiting).toEqual([]);
});

test('a statement that is too long for the queue is held for as long as requests may be', async () => {
  const { gateway, admission, engine } = await gatewayWith();
  const query = runQuery(gateway.url, `SELECT '${'x'.repeat(1_100_000)}'`);
  await until(() => admission.waiting.length === 1, 'the wait');
  admission.next();
  expect((await query).error).toBeUndefined();
  expect(engine.queries).toHaveLength(1);
  expect(await store.queuedQueries.list(1)).toEqual([]);
});

test('a cluster cannot own ids of the queue', async () => {
  const cluster = await startServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(
      JSON.stringify({ id: '20261121_000000_000000000000_queue', stats: { state: 'QUEUED' }, nextUri: 'x' }),
    );
  });
  const { gateway } = await gatewayWith({
    clusters: [clusterAt('a', cluster.url)],
    admission: new CountingAdmission(1),
  });
  expect((await submit(gateway.url, 'SELECT 1')).error?.message).toContain('belongs to another cluster');
});
