import { writeFile } from 'node:fs/promises';
import { beforeAll, expect, test, vi } from 'vitest';
import type { AuditedChange, AuditPage } from '../../../src/api/audit.ts';
import type { RunningQueryList } from '../../../src/api/responses/queries.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { follow, submit } from '../../support/statementClient.ts';
import { basic, call as callAs, worldOf } from '../../support/world.ts';

const keys = sessionKeyPaths();
const users = { root: 'ADMIN_API_USER', ops: 'API', ann: 'USER' } as const;
type User = keyof typeof users;
const world = worldOf('suite');
let config: Record<string, unknown>;
let gateway: GatewayProcess;

const until = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 20_000, interval: 50 });

const call = (user: User, path: string, method = 'GET', body?: unknown) =>
  callAs(gateway, method, path, body, basic(user, `${user} secret`));
const audit = async (query = ''): Promise<readonly AuditedChange[]> =>
  (JSON.parse((await call('ops', `/api/audit?limit=100&${query}`)).text) as AuditPage).changes;
const inShort = (changes: readonly AuditedChange[]) =>
  changes
    .map(({ source, action, kind, name, user }) => `${source} ${action} ${kind} ${name} ${user ?? '-'}`)
    .toReversed();

const cluster = (name: string, group: string) =>
  `apiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata: {name: ${name}}\nspec: {proxyTo: 'http://127.0.0.1:1', routingGroup: ${group}}\n`;
const rule = (name: string, group: string) =>
  `---\nname: ${name}\ndescription: d\ncondition: 'true'\nactions: ['result.put("routingGroup", "${group}")']\n`;

beforeAll(async () => {
  const directory = world.subfolder('clusters');
  await writeFile(world.path('clusters/a.yaml'), cluster('a', 'adhoc'));
  await writeFile(world.path('rules.yaml'), rule('one', 'adhoc') + rule('two', 'adhoc'));
  config = {
    resources: { source: 'directory', directory },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath: world.path('rules.yaml'), rulesRefreshPeriod: '500ms' },
    authentication: {
      form: { selfSignKeyPair: keys },
    },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
    presetUsers: Object.fromEntries(
      Object.entries(users).map(([name, privileges]) => [name, { password: `${name} secret`, privileges }]),
    ),
  };
  gateway = await world.start(config);
  // What there is at the first start is no change: the next one is.
  let group = '';
  await vi.waitFor(
    async () => {
      const changes = await audit('name=begun');
      if (changes.length === 0) {
        group = `g${Date.now()}`;
        await writeFile(world.path('clusters/begun.yaml'), cluster('begun', group));
      }
      expect(changes[0]).toMatchObject({ after: { routingGroup: group } });
    },
    { timeout: 60_000, interval: 1_000 },
  );
});
test('has what calls change, with who, from where, before and after, and not twice as changes of files', async () => {
  const begun = Date.now();
  const since = `from=${begun}`;
  const b = { name: 'b', proxyTo: 'http://127.0.0.1:2', active: true, routingGroup: 'adhoc' };
  const steps: readonly (readonly [User, string, string, unknown, number])[] = [
    ['ops', '/gateway/backend/modify/add', 'POST', b, 200],
    ['root', '/api/clusters/b/active', 'PUT', { active: false }, 200],
    ['root', '/api/clusters/b/active', 'PUT', { active: false }, 200],
    ['ops', '/gateway/backend/modify/add', 'POST', b, 409],
    ['ann', '/api/clusters/b/active', 'PUT', { active: true }, 403],
    ['root', '/api/groups/adhoc', 'PUT', { maxRunningQueries: 7 }, 200],
    ['root', '/webapp/saveGlobalProperty', 'POST', { data: { name: 'cpu_quota_period', value: '1h' } }, 200],
    ['root', '/gateway/backend/modify/delete', 'POST', { name: 'b' }, 200],
  ];
  for (const [user, path, method, body, expected] of steps) {
    const { status, text } = await call(user, path, method, body);
    expect([path, status, status === expected ? '' : text]).toEqual([path, expected, '']);
  }
  const { rules } = JSON.parse((await call('root', '/api/rules')).text);
  const { version } = rules.find(({ name }: { name: string }) => name === 'one');
  const changed = await call('root', '/api/rules/one', 'PUT', {
    ...{ version, description: 'by hand', priority: 2147483647, condition: 'true' },
    actions: ['result.put("routingGroup", "etl")'],
  });
  expect([changed.status, changed.text]).toEqual([200, changed.text]);
  // A file that is changed later is recorded after all of them: by then none of them was recorded twice.
  await writeFile(world.path('clusters/c.yaml'), cluster('c', 'adhoc'));
  const expected = [
    'rest create EngineCluster b ops',
    'rest change EngineCluster b root',
    'rest create RoutingGroup adhoc root',
    'rest create GlobalProperty cpu_quota_period root',
    'rest delete EngineCluster b root',
    'rest change RoutingRule one root',
    'file create EngineCluster c -',
  ];
  await until(async () => expect(inShort(await audit(since))).toEqual(expected));
  const [switched] = (await audit(`${since}&name=b&user=root`)).toReversed();
  expect(switched).toMatchObject({
    before: { name: 'b', active: true },
    after: { name: 'b', active: false },
    address: '127.0.0.1',
    recognisedBy: 'basic',
    roles: ['ADMIN', 'USER', 'API'],
    call: 'PUT /api/clusters/b/active',
  });
  expect(inShort(await audit(`${since}&kind=RoutingRule`))).toEqual(['rest change RoutingRule one root']);
  expect(inShort(await audit(`${since}&source=file`))).toEqual(['file create EngineCluster c -']);
  expect(inShort(await audit(`to=${begun}&name=b`))).toEqual([]);
});

test('has what is changed in manifests and the rules file, once, also over a restart', async () => {
  const since = `from=${Date.now()}`;
  await writeFile(world.path('clusters/a.yaml'), cluster('a', 'etl'));
  await writeFile(world.path('rules.yaml'), rule('two', 'etl') + rule('three', 'adhoc'));
  const expected = [
    'file change EngineCluster a -',
    'file change RoutingRule two -',
    'file create RoutingRule three -',
    'file delete RoutingRule one -',
  ];
  await until(async () => expect(inShort(await audit(since)).toSorted()).toEqual(expected.toSorted()));
  expect((await audit(`${since}&name=a`))[0]).toMatchObject({
    before: { routingGroup: 'adhoc' },
    after: { routingGroup: 'etl' },
    user: null,
    manager: null,
  });
  await gateway.stop();
  // Nobody watches while this is written.
  await writeFile(world.path('clusters/a.yaml'), cluster('a', 'night'));
  gateway = await world.start(config);
  const all = [...expected, 'file change EngineCluster a -'];
  await until(async () => expect(inShort(await audit(since)).toSorted()).toEqual(all.toSorted()));
});

test('pages are bounded, and only administrators and programs read it', async () => {
  const page = async (query: string) => JSON.parse((await call('root', `/api/audit?${query}`)).text);
  const first: AuditPage = await page('limit=2');
  const second: AuditPage = await page(`limit=2&after=${first.next}`);
  const all = await audit();
  expect([...first.changes, ...second.changes].map(({ id }) => id)).toEqual(all.slice(0, 4).map(({ id }) => id));
  const named: AuditPage = await page('match=prefix&kind=Engine');
  expect(new Set(named.changes.map(({ kind }) => kind))).toEqual(new Set(['EngineCluster']));
  expect((await page('kind=Engine')).changes).toEqual([]);
  const last: AuditPage = await page(`limit=1&after=${Date.parse(all.at(-1)?.at ?? '')}.${all.at(-1)?.id}`);
  expect(last).toEqual({ changes: [], next: null });
  for (const [query, field] of [
    ['limit=101', 'limit'],
    ['limit=0', 'limit'],
    ['limit=-1', 'limit'],
    ['from=yesterday', 'from'],
    ['after=x', 'after'],
    ['source=nowhere', 'source'],
    ['match=part', 'match'],
    [`name=${'x'.repeat(300)}`, 'name'],
  ] as const) {
    const { status, text } = await call('root', `/api/audit?${query}`);
    expect([query, status, JSON.parse(text).error.field]).toEqual([query, 400, field]);
  }
  expect((await call('ann', '/api/audit')).status).toBe(403);
});

test('secrets are masked, and long states are cut', async () => {
  const since = `from=${Date.now()}`;
  const proxyTo = 'http://127.0.0.1:3';
  const externalUrl = 'https://joe:hunter2@engines.example/x?token=hunter2';
  const added = await call('ops', '/gateway/backend/modify/add', 'POST', {
    ...{ name: 's', proxyTo, active: true, routingGroup: 'adhoc', externalUrl: 'https://engines.example/' },
  });
  expect(added.status).toBe(200);
  const selector = { source: 'x'.repeat(20), environment: externalUrl, queryType: 'SELECT', resourceGroupId: 'g' };
  const saved = await call('root', '/webapp/saveExactMatchSourceSelector', 'POST', selector);
  expect([saved.status, saved.text]).toEqual([200, saved.text]);
  await until(async () => expect(await audit(`${since}&kind=ExactMatchSelector`)).toHaveLength(1));
  const text = JSON.stringify(await audit(since));
  expect(text).toContain('engines.example');
  expect(text).not.toContain('hunter2');
});

test('running queries are listed and ended, by users their own, and the audit has who ended which', async () => {
  const engine = await world.engine({ name: 'engine' });
  await writeFile(
    world.path('clusters/engine.yaml'),
    cluster('engine', 'running').replace('http://127.0.0.1:1', engine.url),
  );
  const routed = { headers: { 'X-Engine-Routing-Group': 'running', 'X-Engine-Source': 'dbt' } };
  /** A query that a cluster has begun, and that nobody follows. */
  const send = async (user: string) => {
    let page = await submit(gateway.url, `SELECT '${user}'`, { user, ...routed });
    while (page.nextUri?.includes('/queued/')) page = await follow(page.nextUri, { user, ...routed });
    return page;
  };
  await writeFile(world.path('rules.yaml'), rule('two', 'running'));
  await until(async () => expect((await call('root', '/api/rules')).text).toContain('\\"running\\"'));
  await until(async () =>
    expect((await call('root', '/api/public/backends/engine/state')).text).toContain('"HEALTHY"'),
  );
  const own = await send('ann');
  const others = await send('bob');
  const list = async (user: User, query = ''): Promise<RunningQueryList> =>
    JSON.parse((await call(user, `/api/queries/running?${query}`)).text);
  const ids = async (user: User, query = '') => (await list(user, query)).queries.map(({ queryId }) => queryId);
  await until(async () => expect(await ids('root')).toEqual(expect.arrayContaining([own.id, others.id])));
  expect((await list('root', 'user=bob')).queries).toMatchObject([
    {
      queryId: others.id,
      cluster: 'engine',
      routingGroup: 'running',
      user: 'bob',
      source: 'dbt',
      queryText: "SELECT 'bob'",
    },
  ]);
  expect(await ids('root', 'cluster=nowhere')).toEqual([]);
  expect(await ids('root', 'routingGroup=running&cluster=engine')).toContain(others.id);
  expect(await ids('ann')).not.toContain(others.id);
  expect(await ids('ann', 'user=bob')).toEqual([]);
  const since = `from=${Date.now()}`;
  const end = async (user: User, id: string) => (await call(user, `/api/queries/running/${id}`, 'DELETE')).status;
  expect(await end('ann', others.id)).toBe(404);
  expect(await end('ops', others.id)).toBe(403);
  expect(await end('root', 'no_such_query')).toBe(404);
  expect(await end('ann', own.id)).toBe(204);
  expect(await end('root', others.id)).toBe(204);
  expect((await follow(others.nextUri ?? '', { user: 'bob', ...routed })).error).toMatchObject({
    errorName: 'USER_CANCELED',
  });
  await until(async () => expect(await ids('root')).not.toContain(others.id));
  await until(async () =>
    expect(inShort(await audit(`${since}&kind=RunningQuery`))).toEqual([
      `rest delete RunningQuery ${own.id} ann`,
      `rest delete RunningQuery ${others.id} root`,
    ]),
  );
});
