import { beforeAll, describe, expect, test } from 'vitest';
import type { DigestDetails, DigestList, QuarantineList, QueryPage } from '../../../src/api/responses/queries.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import type { StoredReplay } from '../../../src/store/queryOutcome.ts';
import { until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { runQuery, submit } from '../../support/statementClient.ts';
import { basic, worldOf } from '../../support/world.ts';

describe('digests of queries', () => {
  const world = worldOf('suite');
  let gateway: GatewayProcess;
  let store: KnexStore;

  const listed = async (id: string) => {
    const response = await fetch(`${gateway.url}/api/queries?queryId=${id}`);
    return ((await response.json()) as QueryPage).queries[0];
  };
  /** The outcome of a statement, once it is stored. */
  const outcomeOf = async (sql: string, headers: Readonly<Record<string, string>> = {}) => {
    const { id } = await runQuery(gateway.url, sql, { headers });
    await expect.poll(async () => (await listed(id))?.outcome?.digest).toMatch(/^[0-9a-f]{16}$/);
    const replay = await store.database.knex('eg_query_decisions').where('query_id', id).first('replay');
    return { ...(await listed(id))?.outcome, replay: JSON.parse(replay.replay) as StoredReplay };
  };

  beforeAll(async () => {
    const engine = await world.engine({ name: 'engine' });
    await world.declare(
      manifest('EngineCluster', 'first', { proxyTo: engine.url, routingGroup: 'adhoc' }),
      manifest('RoutingRule', 'closed', {
        condition: 'request.getHeader("X-Team") == "red"',
        deny: { message: 'closed' },
      }),
    );
    gateway = await world.startReady({ queryHistory: { redact: ["secret '[^']*'"], maxTextSize: '100B' } });
    store = await world.store();
  });

  test('are equal for literals, white space and prepared statements', async () => {
    const one = await outcomeOf('SELECT 1');
    const other = await outcomeOf('select /* c */ 22');
    expect(other.digest).toBe(one.digest);
    expect(other.exactDigest).not.toBe(one.exactDigest);
    const headers = { 'X-Engine-Prepared-Statement': 'p=SELECT+%3F' };
    const executed = await outcomeOf('EXECUTE p USING 3', headers);
    expect(executed.digest).toBe(one.digest);
    expect(executed.replay.statement).toBe('SELECT ?');
    expect(one).toMatchObject({ physicalInputBytes: 0, spilledBytes: 0, tool: null });
    const shape = await store.database
      .knex('eg_digests')
      .where('digest', one.digest ?? '')
      .first();
    expect(shape.shape).toBe('SELECT ?');
  });

  test('come with labels and what a replay needs, without secrets', async () => {
    const model = 'model.shop.orders';
    const outcome = await outcomeOf(`/* {"app": "dbt", "node_id": "${model}"} */ SELECT 1`, {
      ...{ 'X-Engine-Session': 'a=1,hive.s3_secret=hidden', 'X-Engine-Extra-Credential': 'k=hidden' },
      ...{ 'X-Engine-Time-Zone': 'Europe/Berlin', 'X-Engine-Client-Capabilities': 'PATH,PARAMETRIC_DATETIME' },
    });
    expect(outcome).toMatchObject({ tool: 'dbt', model, dashboard: null });
    expect(outcome.replay).toEqual({
      complete: 'redacted',
      headers: {
        ...{ Session: 'a=1,hive.s3_secret=***', 'Time-Zone': 'Europe/Berlin' },
        'Client-Capabilities': 'PATH,PARAMETRIC_DATETIME',
      },
    });
  });

  test('state whether the stored text is complete', async () => {
    expect((await outcomeOf('SELECT 1')).replay).toEqual({ complete: 'yes', headers: {} });
    expect((await outcomeOf(`SELECT 1${' '.repeat(100)} + 1`)).replay.complete).toBe('cut');
    expect((await outcomeOf("SELECT 'x' -- secret 'abc'")).replay.complete).toBe('redacted');
  });

  test('belong to denied queries, too, and to log lines', async () => {
    const denied = await submit(gateway.url, "SELECT 'denied', 2", { headers: { 'X-Team': 'red' } });
    await expect.poll(async () => (await listed(denied.id))?.outcome?.state).toBe('DENIED');
    const { digest } = await outcomeOf('SELECT 1, 2');
    expect((await listed(denied.id))?.outcome?.digest).toBe(digest);
    await gateway.logged(
      ({ msg, reason, queryDigest }) => msg === 'query' && reason === 'denied' && queryDigest === digest,
    );
    await gateway.logged(
      ({ msg, cluster, queryDigest }) => msg === 'query' && cluster === 'first' && queryDigest === digest,
    );
  });
});

describe('figures by digest', () => {
  const world = worldOf('suite');
  let gateway: GatewayProcess;

  const call = async (path: string, user: string) => {
    const response = await fetch(`${gateway.url}${path}`, { headers: basic(user, 'x') });
    // biome-ignore lint/suspicious/noExplicitAny: tests read a field of it
    return { status: response.status, json: (await response.json()) as any };
  };
  const list = async (query: string, user = 'boss') =>
    (await call(`/api/digests?${query}`, user)).json.digests as DigestList['digests'];
  const counts = async (query: string, user = 'boss') =>
    (await list(query, user)).map(({ shape, figures }) => [shape, figures.queries]);

  beforeAll(async () => {
    const engine = await world.engine({ name: 'engine' });
    await world.declare(
      manifest('EngineCluster', 'first', { proxyTo: engine.url, routingGroup: 'adhoc' }),
      manifest('EngineCluster', 'second', { proxyTo: engine.url, routingGroup: 'etl' }),
    );
    gateway = await world.startReady({
      authentication: { form: { selfSignKeyPair: sessionKeyPaths() } },
      presetUsers: {
        boss: { password: 'x', privileges: 'ADMIN_USER_API' },
        ann: { password: 'x', privileges: 'USER' },
        machine: { password: 'x', privileges: 'API' },
      },
      authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
    });
    const run = (user: string, sql: string, headers: Readonly<Record<string, string>> = {}) =>
      runQuery(gateway.url, sql, { user, headers });
    for (const number of [1, 2, 3]) await run('ann', `SELECT ${number}`, { 'X-Engine-Source': 'cli' });
    await run('bob', 'select 4, 5', { 'X-Engine-Routing-Group': 'etl' });
    await run('bob', 'SELECT 4 FROM nothing.here.at_all');
    await until(async () => {
      const digests = await list('top=count');
      return digests.length === 3 && digests[0]?.figures.queries === 3;
    }, 'outcomes of all queries');
  });

  test('are those of all queries, in the order that is asked for', async () => {
    expect(await counts('top=count&limit=1')).toEqual([['SELECT ?', 3]]);
    const [first] = await list('top=failures');
    expect(first?.figures.failures).toBe(0);
    for (const top of ['cpu', 'time', 'growth']) expect(await list(`top=${top}`)).toHaveLength(3);
    const failed = (await list('')).find(({ shape }) => shape?.includes('at_all'));
    expect(failed?.figures).toMatchObject({ queries: 1, userErrors: 1, errors: { USER_ERROR: 1 } });
    const [one] = await list('top=count');
    expect(one?.before.queries).toBe(0);
    const later = Date.now() + 3_600_000;
    const after = (await call(`/api/digests?since=${later}&until=${later + 3_600_000}`, 'boss')).json.digests;
    expect(after).toEqual([]);
    const next = await list(`top=count&since=${Date.now() + 1_000}&until=${Date.now() + 3_600_000}`);
    expect(next).toEqual([]);
  });

  test('are narrowed by user, source, cluster and routing group', async () => {
    expect(await counts('user=ann')).toEqual([['SELECT ?', 3]]);
    expect(await counts('source=cli')).toEqual([['SELECT ?', 3]]);
    expect(await counts('cluster=second')).toEqual([['SELECT ?, ?', 1]]);
    expect(await counts('routingGroup=etl')).toEqual([['SELECT ?, ?', 1]]);
    expect(await counts('user=nobody-else')).toEqual([]);
  });

  test('of one digest have its trend, users, clusters and examples', async () => {
    const digest = (await list('top=count'))[0]?.digest;
    const { status, json } = await call(`/api/digests/${digest}`, 'boss');
    expect(status).toBe(200);
    const details = json as DigestDetails;
    expect(details).toMatchObject({ digest, shape: 'SELECT ?', figures: { queries: 3 } });
    expect(details.hours.reduce((sum, { figures }) => sum + figures.queries, 0)).toBe(3);
    expect(details.values).toMatchObject({
      ...{ user: [{ value: 'ann', queries: 3 }], source: [{ value: 'cli', queries: 3 }] },
      ...{ cluster: [{ value: 'first', queries: 3 }], routingGroup: [{ value: 'adhoc', queries: 3 }] },
    });
    expect(details.values.exactDigest).toHaveLength(3);
    expect(details.examples.map(({ queryText }) => queryText)).toEqual(['SELECT 3', 'SELECT 2', 'SELECT 1']);
    const listed = (await call(`/api/queries?digest=${digest}`, 'boss')).json as QueryPage;
    expect(listed.queries.map(({ queryId }) => queryId)).toEqual(details.examples.map(({ queryId }) => queryId));
    const csv = await fetch(`${gateway.url}/api/queries/export?digest=${digest}`, { headers: basic('boss', 'x') });
    expect((await csv.text()).trim().split('\r\n')).toHaveLength(4);
  });

  test('are of their own queries for users, and of none for machines', async () => {
    expect(await counts('', 'ann')).toEqual([['SELECT ?', 3]]);
    expect(await counts('user=bob', 'ann')).toEqual([]);
    const others = (await list('user=bob')).map(({ digest }) => digest);
    expect(others).toHaveLength(2);
    for (const digest of others) expect((await call(`/api/digests/${digest}`, 'ann')).status).toBe(404);
    expect((await call('/api/digests', 'machine')).status).toBe(403);
  });

  test('in quarantine are listed with their own names to users, who cannot release them', async () => {
    const store = await world.store();
    const lost = { group: 'adhoc', qualifier: '.', digest: '00000000000000d1', exactDigest: '00000000000000e1' };
    for (const [user, cluster] of [
      ['ann', 'a'],
      ['bob', 'b'],
    ] as const)
      await store.quarantine.note({ ...lost, user, cluster, queryId: `of ${user}` });
    await store.close();
    const seenBy = async (user: string) => {
      const { json } = await call('/api/quarantine', user);
      return json.quarantined.map((each: QuarantineList['quarantined'][number]) => [each.users, each.canRelease]);
    };
    expect(await seenBy('boss')).toEqual([[['ann', 'bob'], true]]);
    expect(await seenBy('ann')).toEqual([[['ann'], false]]);
    expect((await call('/api/quarantine', 'machine')).status).toBe(403);
    const release = async (user: string) => {
      const url = `${gateway.url}/api/quarantine/adhoc/${lost.exactDigest}`;
      return (await fetch(url, { method: 'DELETE', headers: basic(user, 'x') })).status;
    };
    expect(await release('ann')).toBe(404);
    expect(await seenBy('boss')).toHaveLength(1);
    expect(await release('boss')).toBe(204);
    expect(await seenBy('boss')).toEqual([]);
  });

  test('reject a range that ends before it starts', async () => {
    const { status, json } = await call('/api/digests?since=5&until=4', 'boss');
    expect([status, json.error.field]).toEqual([400, 'since']);
  });
});
