import { pino } from 'pino';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type KnexStore, openStore } from '../../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../../src/store/resourceGroupStore.ts';
import { accessSettings } from '../../../support/access.ts';
import { type ApiServer, startApi } from '../../../support/apiServer.ts';
import { databases, type TestDatabase } from '../../../support/databases.ts';
import type { OpenapiOperation } from '../../../support/openapiConformance.ts';
import { queryRecord } from '../../../support/queryRecords.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';

const keys = sessionKeyPaths();
const logger = pino({ level: 'silent' });
const roles = ['ADMIN', 'USER', 'API'];
let server: TestDatabase;
let store: KnexStore;
let stores: SchemaStores;
const servers: ApiServer[] = [];

const start = async (webappReadRole: string, { behindTls = false, publicReads = true } = {}) => {
  const access = accessSettings(`
authentication:
  publicReads: ${publicReads}
  form: {selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}}
authorization: {admin: ADMIN, user: USER, api: API, webappReadRole: ${webappReadRole}}
presetUsers:
  ${roles.map((role) => `${role}: {password: x, privileges: ${role}}`).join('\n  ')}
`);
  const accessDependencies = { trustPeer: () => behindTls };
  const api = await startApi({ access, accessDependencies, resourceGroups: stores, store });
  servers.push(api);
  return api;
};

beforeAll(async () => {
  // SQLite: who may call does not depend on the database.
  const family = databases.find(({ name }) => /sqlite/i.test(name))!;
  server = await family.start();
  store = await openStore({ ...(await server.create()), runMigrations: true, logger });
  stores = store.resourceGroups({ allowed: null, maxOpen: 2 });
});
afterAll(async () => {
  for (const api of servers) await api.close();
  await stores?.close();
  await store?.close();
  await server?.dispose();
});

const basic = (name: string) => ({ Authorization: `Basic ${Buffer.from(`${name}:x`).toString('base64')}` });

/** Roles of which an operation needs one, as its description has them. */
const rolesNamed = (description = ''): string[] =>
  (/Needs the role ([A-Z or]+)\./.exec(description)?.[1] ?? '').split(' or ').sort();

/** Who passes at every path of the OpenAPI document. */
async function whoPasses(api: ApiServer): Promise<string[]> {
  const document = (await api.call('GET', '/openapi.json')).json();
  const lines: string[] = [];
  for (const [path, operations] of Object.entries<Record<string, OpenapiOperation>>(document.paths)) {
    for (const [method, { security, description }] of Object.entries(operations)) {
      const target = path.replace(/\{[^}]+\}/g, '1');
      const call = async (headers: Record<string, string>) =>
        (await api.call(method.toUpperCase(), target, { headers })).status;
      const anonymous = await call({});
      // The callback and the login answer 401 for want of a login, not of a role.
      const isPublic = anonymous !== 401 || target === '/oidc/callback' || target === '/login';
      const passing: string[] = [];
      for (const role of roles) {
        const status = await call(basic(role));
        if (![401, 403].includes(status)) passing.push(role);
        else expect([method, path, role, status]).toEqual([method, path, role, 403]);
      }
      expect([path, security === undefined]).toEqual([path, isPublic]);
      if (!isPublic) expect(rolesNamed(description)).toEqual([...passing].sort());
      lines.push(`${method.toUpperCase()} ${path}: ${isPublic ? 'everybody' : passing.join(' ')}`);
    }
  }
  return lines.sort();
}

test('every path of the API lets only its roles in; webappReadRole and publicReads change no other calls', async () => {
  const strict = await whoPasses(await start('ADMIN'));
  expect(strict).toMatchSnapshot();
  expect((await whoPasses(await start('USER'))).filter((line) => !strict.includes(line))).toMatchSnapshot();
  const closed = await whoPasses(await start('ADMIN', { publicReads: false }));
  expect(closed.filter((line) => !strict.includes(line))).toEqual([
    'GET /api/public/backends/{name}/state: ADMIN USER API',
    'GET /api/public/backends/{name}: ADMIN USER API',
    'GET /api/public/backends: ADMIN USER API',
  ]);
});

test('who has the present version of a list is asked for a role like everybody', async () => {
  const api = await start('ADMIN');
  const etag = String((await api.call('GET', '/api/clusters', { headers: basic('ADMIN') })).headers.etag);
  const again = async (headers: Record<string, string>) =>
    (await api.call('GET', '/api/clusters', { headers: { ...headers, 'If-None-Match': etag } })).status;
  expect([await again(basic('USER')), await again(basic('API')), await again({})]).toEqual([304, 403, 401]);
});

test('users without ADMIN see their own queries', async () => {
  const api = await start('USER');
  await store.history.insert([
    queryRecord('mine', { user: 'USER' }),
    queryRecord('other', { user: 'somebody' }),
    queryRecord('longer', { user: 'USER2' }),
  ]);
  const seen = async (role: string) => {
    const found = await api.call('POST', '/webapp/findQueryHistory', {
      headers: basic(role),
      body: '{"user":"somebody"}',
    });
    return found.json().data.rows.map((row: { queryId: string }) => row.queryId);
  };
  expect(await seen('USER')).toEqual(['mine']);
  // The beginning of a name is enough for filters, not for who may see what.
  const search = { headers: basic('USER'), body: '{"match":"prefix"}' };
  const begun = (await api.call('POST', '/api/history/search', search)).json() as { rows: { queryId: string }[] };
  expect(begun.rows.map(({ queryId }) => queryId)).toEqual(['mine']);
  expect(await seen('ADMIN')).toEqual(['other']);
  const view = await api.call('GET', '/engine-gateway/api/queryHistory', { headers: basic('USER') });
  expect(view.json().map((row: { queryId: string }) => row.queryId)).toEqual(['mine']);
});

test('changes of resource groups are logged with before and after', async () => {
  const api = await start('ADMIN');
  const group = { name: 'g', softMemoryLimit: '10%', maxQueued: 1, hardConcurrencyLimit: 1 };
  const post = (path: string, body: object | string, role = 'USER') =>
    api.call('POST', path, { headers: basic(role), body: typeof body === 'string' ? body : JSON.stringify(body) });
  const { resourceGroupId } = (await post('/engine/resourcegroup/create', group)).json();
  await post('/engine/resourcegroup/update', { ...group, resourceGroupId, maxQueued: 2 });
  await post('/webapp/deleteResourceGroup', { data: { resourceGroupId } }, 'ADMIN');
  await post('/engine/globalproperty/create', { name: 'cpu_quota_period', value: '1h' });
  await post('/engine/globalproperty/update', { name: 'cpu_quota_period', value: '2h' });
  await post('/engine/globalproperty/delete/cpu_quota_period', '');
  await post('/engine/resourcegroup/delete/4711', '');
  await post('/webapp/saveBackend', { name: 'b', proxyTo: 'http://b:1', active: true, routingGroup: 'adhoc' }, 'ADMIN');
  const audits = api.logged
    .map((line) => JSON.parse(line))
    .filter(({ msg, audit }) => msg === 'changed' && 'object' in audit);
  const object = `resource group ${resourceGroupId}`;
  expect(audits.map(({ audit }) => audit)).toMatchObject([
    { user: 'USER', object, before: null, after: { maxQueued: 1 } },
    { user: 'USER', object, before: { maxQueued: 1 }, after: { maxQueued: 2 } },
    { user: 'ADMIN', object, before: { maxQueued: 2 }, after: null },
    { object: 'global property cpu_quota_period', before: null, after: { value: '1h' } },
    { object: 'global property cpu_quota_period', before: { value: '1h' }, after: { value: '2h' } },
    { object: 'global property cpu_quota_period', before: { value: '2h' }, after: null },
    { user: 'ADMIN', object: 'cluster b', before: null, after: { name: 'b', active: true } },
  ]);
  expect(api.registry.calls.at(-1)?.by).toBe('ADMIN');
  // The same becomes events, with who may do so; what was refused, or changed nothing, does not.
  await post('/engine/resourcegroup/create', group, 'API');
  expect(api.changes.map((change) => [change.user, change.roles, change.recognisedBy, change.object])).toEqual([
    ...audits.slice(0, 2).map(() => ['USER', ['USER'], 'basic', object]),
    ['ADMIN', ['ADMIN'], 'basic', object],
    ...audits.slice(3, 6).map(() => ['USER', ['USER'], 'basic', 'global property cpu_quota_period']),
    ['ADMIN', ['ADMIN'], 'basic', 'cluster b'],
  ]);
  expect(api.changes[0]?.regarding).toBe('gateway');
  expect(api.changes.at(-1)?.regarding).toMatchObject({ kind: 'EngineCluster', name: 'b' });
});

test('every way to call an operation that the document names works, whole and not in part', async () => {
  const api = await start('USER', { behindTls: true });
  const login = async (role: string, scheme: string): Promise<readonly string[]> => {
    const headers = { 'X-Forwarded-Proto': scheme };
    const response = await api.call('POST', '/login', {
      headers,
      body: JSON.stringify({ username: role, password: 'x' }),
    });
    return [
      response.json().data.token,
      ...(response.headers['set-cookie'] ?? []).map((line) => line.split(';')[0] ?? ''),
    ];
  };
  const document = (await api.call('GET', '/openapi.json')).json();
  const schemes: Record<string, { readonly in: string; readonly name: string }> = document.components.securitySchemes;
  const sessions = new Map<string, readonly string[]>();
  for (const role of roles) {
    sessions.set(`${role} http`, await login(role, 'http'));
    sessions.set(`${role} https`, await login(role, 'https'));
  }
  /** What a call of that role carries to satisfy schemes. */
  const headersFor = (role: string, names: readonly string[], over: string): Record<string, string> => {
    const [token = '', ...cookies] = sessions.get(`${role} ${over}`) ?? [];
    const headers: Record<string, string> = { 'X-Forwarded-Proto': over };
    for (const name of names) {
      const scheme = schemes[name];
      if (name === 'basic') Object.assign(headers, basic(role));
      else if (name === 'bearer') headers.Authorization = `Bearer ${token}`;
      else if (scheme?.in === 'cookie') {
        headers.Cookie = cookies.find((cookie) => cookie.startsWith(`${scheme.name}=`)) ?? '';
      } else if (scheme?.in === 'header') {
        headers[scheme.name] = cookies.find((cookie) => cookie.includes('-CSRF='))?.split('=')[1] ?? '';
      }
    }
    return headers;
  };
  let called = 0;
  for (const [path, operations] of Object.entries<Record<string, OpenapiOperation>>(document.paths)) {
    for (const [method, { security = [], description }] of Object.entries(operations)) {
      const [role = ''] = rolesNamed(description);
      const call = async (headers: Record<string, string>) =>
        (await api.call(method.toUpperCase(), path.replace(/\{[^}]+\}/g, '1'), { headers })).status;
      for (const requirement of security) {
        const names = Object.keys(requirement);
        const over = names.includes('secureSession') ? 'https' : 'http';
        const why = [method, path, ...names];
        const status = await call(headersFor(role, names, over));
        expect([...why, [401, 403].includes(status) ? status : 'passes']).toEqual([...why, 'passes']);
        called += 1;
        if (names.length === 1) continue;
        for (const name of names) {
          expect([...why, await call(headersFor(role, [name], over))]).toEqual([...why, name === 'csrf' ? 401 : 403]);
        }
      }
    }
  }
  expect(called).toBeGreaterThan(100);
});
