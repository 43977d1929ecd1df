import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Scaling } from '../../../src/api/clusters.ts';
import type { QueueList } from '../../../src/api/responses/queries.ts';
import type { Explanation, RoutedQuery } from '../../../src/api/responses/routing.ts';
import { postgresql, type TestDatabase } from '../../support/databases.ts';
import { closeAll, startServer, until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { cancel, follow, pathOf, type QueryResults, submit } from '../../support/statementClient.ts';
import { basic, call, worldOf } from '../../support/world.ts';

/** A cluster whose queries run until the test ends them. */
async function startCluster() {
  const statements: string[] = [];
  const cancelled: string[] = [];
  const ids: string[] = [];
  const running = new Map<string, () => void>();
  const { url } = await startServer((request, response) => {
    let body = '';
    const base = `http://${request.headers['x-forwarded-host']}:${request.headers['x-forwarded-port']}`;
    const answer = (value: object) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    request.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    request.on('end', () => {
      const path = request.url ?? '';
      if (path === '/v1/info') answer({ starting: false });
      else if (request.method === 'POST') {
        statements.push(body);
        const id = `20261121_000000_${String(ids.length).padStart(5, '0')}_abcde`;
        ids.push(id);
        const isCall = body.startsWith('CALL');
        answer({
          id,
          infoUri: `${base}/ui/query.html?${id}`,
          ...(isCall ? {} : { nextUri: `${base}/v1/statement/executing/${id}/x/1` }),
          stats: { state: isCall ? 'FINISHED' : 'RUNNING' },
        });
      } else if (request.method === 'DELETE') {
        cancelled.push(path);
        response.writeHead(204).end();
      } else if (path.startsWith('/ui/')) response.end('page of the engine');
      else {
        const id = path.split('/')[4] ?? '';
        running.set(id, () => answer({ id, infoUri: base, stats: { state: 'FINISHED' } }));
      }
    });
  });
  return {
    ...{ url, statements, cancelled, ids },
    /** Ends a query once its client follows it. */
    async finish(id: string): Promise<void> {
      await until(() => running.has(id), `somebody to follow ${id}`);
      running.get(id)?.();
    },
  };
}

const asRoot = basic('root', 'secret');
const asAlice = basic('alice', 'secret');

describe.skipIf(!postgresql.available())('what is seen of queries that wait at one replica, asked at another', () => {
  const world = worldOf('test');
  let server: TestDatabase;
  let replicas: GatewayProcess[] = [];
  let cluster: Awaited<ReturnType<typeof startCluster>>;
  /** Where the queries wait, and where the calls go. */
  let here: string;
  let other: string;

  beforeAll(async () => {
    server = await postgresql.start();
  });
  beforeEach(async () => {
    cluster = await startCluster();
    await world.declare(
      manifest('EngineCluster', 'one', { proxyTo: cluster.url, routingGroup: 'adhoc' }),
      manifest('RoutingRule', 'dbt', {
        condition: 'request.getHeader("X-Engine-Source") == "dbt"',
        routeTo: { routingGroup: 'adhoc' },
      }),
      manifest('RoutingGroup', 'adhoc', { maxRunningQueries: 1, queue: { hold: '50ms', maxWait: '5m' } }),
    );
    const dataStore = await server.create();
    replicas = await Promise.all(
      [0, 1].map((number) =>
        world.startReady({
          dataStore,
          queryHistory: { spillDirectory: world.path(`spill-${number}`) },
          authentication: { defaultType: 'form', form: { selfSignKeyPair: sessionKeyPaths() } },
          authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
          presetUsers: {
            root: { password: 'secret', privileges: 'ADMIN_USER_API' },
            alice: { password: 'secret', privileges: 'USER' },
          },
          routing: { explainHeader: true },
        }),
      ),
    );
    [here = '', other = ''] = replicas.map(({ url }) => url);
  });
  afterEach(async () => {
    await world.kill();
    await closeAll();
  });
  afterAll(() => server?.dispose());

  const ask = async <T>(
    path: string,
    method = 'GET',
    body?: object,
    headers: Readonly<Record<string, string>> = asRoot,
  ): Promise<T> => {
    const { status, text, json } = await call({ url: other }, method, path, body, headers);
    if (status >= 300) throw new Error(`HTTP ${status}: ${text}`);
    return json as T;
  };

  /** Asks for a query until it has another id than the one it has now: its cluster's. */
  async function untilSent(first: QueryResults, user: string): Promise<{ page: QueryResults; header: string | null }> {
    let uri = first.nextUri ?? '';
    for (;;) {
      const response = await fetch(uri, { headers: { 'X-Engine-User': user } });
      const page = (await response.json()) as QueryResults;
      if (page.id !== first.id) return { page, header: response.headers.get('x-engine-routing-decision') };
      uri = page.nextUri ?? '';
    }
  }

  /** A query that runs, and those of these users that wait for it to end. */
  async function waitingBehind(users: readonly string[]) {
    const submitted = await submit(here, 'SELECT running', { user: 'zoe' });
    // The first slot of a counter takes a beat.
    const running = submitted.id.endsWith('_queue') ? (await untilSent(submitted, 'zoe')).page : submitted;
    const waiting: QueryResults[] = [];
    for (const user of users) {
      waiting.push(await submit(here, `SELECT ${waiting.length}`, { user, headers: { 'X-Engine-Source': 'dbt' } }));
    }
    for (const { id } of waiting) expect(id).toMatch(/_queue$/);
    const followed = follow(running.nextUri ?? '', { user: 'zoe' });
    followed.catch(() => undefined);
    const end = async () => {
      await cluster.finish(running.id);
      await followed;
    };
    return { running, waiting, end };
  }

  const why = 'group adhoc: 1 of 1 running (maxRunningQueries of the group)';

  test('an administrator moves one first and drops one: list, header, trace and log say so', async () => {
    const { waiting, end } = await waitingBehind(['alice', 'alice', 'bob']);
    const [first, second, third] = waiting as [QueryResults, QueryResults, QueryResults];
    const list = await ask<QueueList>('/api/queue');
    expect(
      list.queries.map(({ id, user, source, position, groupWaiting, reason }) => [
        id,
        user,
        source,
        position,
        groupWaiting,
        reason,
      ]),
    ).toEqual([
      [first.id, 'alice', 'dbt', 1, 3, why],
      [second.id, 'alice', 'dbt', 3, 3, why],
      [third.id, 'bob', 'dbt', 2, 3, why],
    ]);
    const own = await ask<QueueList>('/api/queue', 'GET', undefined, asAlice);
    expect(own.queries.map(({ id, position }) => [id, position])).toEqual([
      [first.id, 1],
      [second.id, 3],
    ]);
    for (const [path, method] of [
      [`/api/queue/${first.id}/first`, 'POST'],
      [`/api/queue/${first.id}`, 'DELETE'],
    ] as const) {
      await expect(ask(path, method, undefined, asAlice)).rejects.toThrow('HTTP 403');
    }

    await ask(`/api/queue/${second.id}/first`, 'POST');
    const positionOf = async ({ nextUri = '' }: QueryResults) => {
      const response = await fetch(`${nextUri}?maxWait=1ms`, { headers: { 'X-Engine-User': 'alice' } });
      await response.text();
      return response.headers.get('x-engine-routing-decision');
    };
    await expect
      .poll(() => positionOf(second))
      .toBe(`group=adhoc; by=rule; rule=dbt; queued=true; position=1; waiting=3; admission="${why}"`);
    expect(await positionOf(first)).toContain('position=2; waiting=3');
    await ask(`/api/queue/${third.id}`, 'DELETE');
    const dropped = await follow(third.nextUri ?? '', { user: 'bob' });
    expect(dropped.error).toMatchObject({ errorName: 'ADMINISTRATIVELY_KILLED' });
    // Its end is in the history like those of queries that ran, with its statement, under the id that its client has.
    await expect
      .poll(() => ask<RoutedQuery>(`/api/queries/${third.id}`).catch(() => null))
      .toMatchObject({
        ...{ queryId: third.id, user: 'bob', source: 'dbt', routingGroup: 'adhoc', queryText: 'SELECT 2', cluster: '' },
        outcome: { state: 'CANCELLED', errorName: 'ADMINISTRATIVELY_KILLED', gatewayQueuedMillis: expect.any(Number) },
      });

    await end();
    const { page, header } = await untilSent(second, 'alice');
    expect(cluster.statements.at(-1)).toBe('SELECT 1');
    const wait = new RegExp(
      `^${why.replace(/[()]/g, '\\$&')}; waited \\d+\\.\\d s as 2nd of 2 \\(fair by user, weight 1\\), moved first by an administrator; admitted to one$`,
    );
    expect(/admission="([^"]*)"/.exec(header ?? '')?.[1]).toMatch(wait);
    expect(header).toContain('cluster=one; group=adhoc; by=rule; rule=dbt');
    // The history is written in batches.
    const decisionOf = async (id: string) =>
      (await ask<RoutedQuery>(`/api/queries/${id}`).catch(() => null))?.decision ?? null;
    await expect.poll(() => decisionOf(page.id)).not.toBeNull();
    const decision = await decisionOf(page.id);
    expect(decision?.admission).toMatch(wait);
    expect(decision?.queuedAs).toBe(second.id);
    const lines = replicas.flatMap(({ log }) => log).filter(({ msg }) => msg === 'query');
    const line = lines.find(({ queryId }) => queryId === page.id);
    expect(line).toMatchObject({ queuedAs: second.id, admission: expect.stringMatching(wait) });
    expect(lines.find(({ queryId }) => queryId === second.id)).toMatchObject({
      queued: true,
      admission: `${why}; waits as 2nd of 2 (fair by user, weight 1)`,
    });
    const audits = replicas.flatMap(({ log }) => log).filter(({ msg }) => msg === 'changed');
    expect(audits).toMatchObject([
      { audit: { user: 'root', object: `queued query ${second.id}`, after: { movedFirst: true } } },
      { audit: { user: 'root', object: `queued query ${third.id}`, after: null } },
    ]);
    const followed = follow(page.nextUri ?? '', { user: 'alice' });
    await cluster.finish(page.id);
    await followed;
    expect((await untilSent(first, 'alice')).page.id).toMatch(/_abcde$/);
    const usersOf = async (headers: Readonly<Record<string, string>>) => {
      const { queries } = await ask<{ queries: RoutedQuery[] }>('/api/queries', 'GET', undefined, headers);
      return [...new Set(queries.map(({ user }) => user))].sort();
    };
    expect(await usersOf(asAlice)).toEqual(['alice']);
    await expect.poll(() => usersOf(asRoot)).toEqual(['alice', 'bob', 'zoe']);
  });

  test('both ids find a query: history, search, kill_query, cancellation, its page', async () => {
    const { waiting, end } = await waitingBehind(['alice']);
    const [first] = waiting as [QueryResults];
    const waits = await ask<RoutedQuery>(`/api/queries/${first.id}`);
    expect(waits).toMatchObject({ queryId: first.id, queuedAs: first.id, user: 'alice', cluster: '', decision: null });
    // As the queue's list has it.
    const place = { position: 1, groupWaiting: 1, movedFirst: false, state: 'waiting', reason: why };
    expect(waits.queue).toEqual(place);
    expect((await ask<QueueList>('/api/queue')).queries).toEqual([expect.objectContaining({ id: first.id, ...place })]);
    expect(await ask(`/api/queries/${first.id}`, 'GET', undefined, asAlice)).toEqual(waits);
    const page = `/ui/query.html?${first.id}`;
    expect(first.infoUri).toBe(`${here}${page}`);
    const shown = await fetch(first.infoUri);
    expect([shown.status, shown.headers.get('content-type'), shown.headers.get('refresh')]).toEqual([
      200,
      'text/html; charset=utf-8',
      '2',
    ]);
    const html = await shown.text();
    expect(html).toContain('It waits for its turn in routing group adhoc');
    expect(html).toContain('Place: 1 of 1.');
    expect(html).not.toContain('alice');
    expect(await (await fetch(`${other}${page}`)).text()).toContain('It waits for its turn in routing group adhoc');

    await end();
    const { page: sent } = await untilSent(first, 'alice');
    const bothIds = [first.id, sent.id];
    for (const id of bothIds) {
      await expect
        .poll(() => ask<RoutedQuery>(`/api/queries/${id}`).catch(() => null))
        .toMatchObject({
          ...{ queryId: sent.id, queuedAs: first.id, cluster: 'one', rule: 'dbt', queue: null },
          decision: { decidedBy: 'rule', rules: [expect.objectContaining({ rule: 'dbt', outcome: 'fired' })] },
        });
      await expect
        .poll(() => ask('/webapp/findQueryHistory', 'POST', { queryId: id }))
        .toMatchObject({ data: { total: 1, rows: [{ queryId: sent.id, user: 'alice' }] } });
      expect(await (await fetch(`${other}/ui/query.html?${id}`)).text()).toBe('page of the engine');
      const killed = await submit(other, `CALL system.runtime.kill_query(query_id => '${id}')`, { user: 'alice' });
      expect(killed.stats.state).toBe('FINISHED');
      expect(cluster.statements.at(-1)).toMatch(new RegExp(`=> '${sent.id}' *\\)$`));
      const cancelled = await fetch(`${other}/v1/query/${id}`, {
        method: 'DELETE',
        headers: { 'X-Engine-User': 'alice' },
      });
      expect([cancelled.status, cluster.cancelled.at(-1)]).toEqual([204, `/v1/query/${sent.id}`]);
    }
    expect(await cancel(`${other}${pathOf(first.nextUri ?? '')}`)).toBe(204);
    expect(cluster.cancelled.at(-1)).toBe(`/v1/statement/executing/${sent.id}/x/1`);
  });

  test('one that waits is cancelled by its id, for the client that sent it alone', async () => {
    const { waiting } = await waitingBehind(['alice']);
    const [first] = waiting as [QueryResults];
    const cancelAs = async (headers: Readonly<Record<string, string>>) =>
      (await fetch(`${other}/v1/query/${first.id}`, { method: 'DELETE', headers })).status;
    expect(await cancelAs({ 'X-Engine-User': 'mallory' })).toBe(403);
    expect(await cancelAs({})).toBe(403);
    expect(await cancelAs({ 'X-Engine-User': 'alice', ...asRoot })).toBe(403);
    expect((await ask<QueueList>('/api/queue')).total).toBe(1);
    expect(await cancelAs({ 'X-Engine-User': 'alice' })).toBe(204);
    await expect.poll(async () => (await ask<QueueList>('/api/queue')).total).toBe(0);
    await expect
      .poll(() => ask<RoutedQuery>(`/api/queries/${first.id}`).catch(() => null))
      .toMatchObject({
        ...{ user: 'alice', rule: 'dbt', outcome: { state: 'CANCELLED', errorName: 'USER_CANCELED' } },
        decision: { rules: [expect.objectContaining({ rule: 'dbt', outcome: 'fired' })] },
      });
    expect((await follow(first.nextUri ?? '', { user: 'alice' })).error).toMatchObject({ errorName: 'NOT_FOUND' });
    expect((await fetch(`${other}/ui/query.html?${first.id}`)).status).toBe(404);
  });

  test('scaling counts those of all replicas; the explanation says that a query would wait, and for what', async () => {
    const described = { headers: { 'X-Engine-User': 'alice' }, body: 'SELECT 1' };
    const explain = async () =>
      (await call({ url: here }, 'POST', '/api/explain', described, asRoot)).json as Explanation;
    expect(await explain()).toMatchObject({ outcome: 'routed', waitsFor: null });
    await waitingBehind(['alice', 'bob']);
    expect(await ask<Scaling>('/api/scaling/adhoc')).toMatchObject({ queued: 2, capacity: 1, complete: true });
    expect(await explain()).toMatchObject({
      outcome: 'routed',
      message: `one: routing group adhoc by default; it would wait: ${why}`,
      waitsFor: why,
    });
  });
});
