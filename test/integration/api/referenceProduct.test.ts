import { request } from 'undici';
import { beforeAll, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { basic as basicOf, worldOf } from '../../support/world.ts';

/** What clients of Trino Gateway rely on, with its product name; each value is what release 21 answers. */
const world = worldOf('suite');
let gateway: GatewayProcess;
const access = {
  protocol: { productName: 'Trino' },
  resources: { source: 'database' },
  authentication: { defaultType: 'form', form: { selfSignKeyPair: sessionKeyPaths() } },
  authorization: { admin: '(.*)ADMIN(.*)', user: '(.*)USER(.*)', api: '(.*)API(.*)' },
};

beforeAll(async () => {
  gateway = await world.start({
    ...access,
    presetUsers: {
      admin: { password: 'x', privileges: 'ADMIN_USER_API' },
      user: { password: 'x', privileges: 'USER' },
      api: { password: 'x', privileges: 'API' },
    },
  });
}, 90_000);

const call = (path: string, body: unknown, headers: Record<string, string>) =>
  fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
const basic = (name: string) => basicOf(name, 'x');

test('/engine-gateway leads to the pages', async () => {
  const led = await fetch(`${gateway.url}/engine-gateway/history`, { redirect: 'manual' });
  expect([led.status, led.headers.get('location')]).toEqual([308, '/trino-gateway/history']);
});

describe('clusters', () => {
  test.each([
    ['active and routingGroup left out', {}, { active: true, routingGroup: 'adhoc' }],
    ['routingGroup null', { routingGroup: null }, { routingGroup: 'adhoc' }],
    ['active as a string', { active: 'false' }, { active: false }],
    ['active null', { active: null }, { active: false }],
    ['active as a number', { active: 1 }, { active: true }],
    ['routingGroup as a number', { routingGroup: 7 }, { routingGroup: '7' }],
    ['an empty externalUrl', { externalUrl: '' }, { externalUrl: 'http://127.0.0.1:9' }],
  ])('add, update and entity: %s', async (_, fields, expected) => {
    const cluster = { name: 'a', proxyTo: 'http://127.0.0.1:9', ...fields };
    for (const path of [
      '/gateway/backend/modify/add',
      '/gateway/backend/modify/update',
      '/entity?entityType=GATEWAY_BACKEND',
    ]) {
      expect((await call(path, cluster, basic('admin'))).status, path).toBe(200);
      const all = await (await fetch(`${gateway.url}/gateway/backend/all`, { headers: basic('api') })).json();
      expect(all, path).toMatchObject([{ name: 'a', proxyTo: 'http://127.0.0.1:9', ...expected }]);
      if (!path.endsWith('add')) continue;
      await call('/gateway/backend/modify/delete', 'a', basic('api'));
    }
    const saved = await call('/webapp/updateBackend', cluster, basic('admin'));
    expect(await saved.json()).toMatchObject({ code: 200, data: expected });
    await call('/gateway/backend/modify/delete', 'a', basic('api'));
  });

  test('an empty body deletes nothing and is no error', async () => {
    expect((await call('/gateway/backend/modify/delete', '', basic('api'))).status).toBe(200);
    const byPages = await call('/webapp/deleteBackend', {}, basic('admin'));
    expect([byPages.status, await byPages.json()]).toMatchObject([200, { data: true }]);
  });
});

test('/webapp reads numbers and booleans from strings', async () => {
  const sent = await call('/webapp/findQueryHistory', { page: '1', size: '10' }, basic('admin'));
  expect(await sent.json()).toMatchObject({ code: 200, data: { total: 0 } });
  const wrong = await call('/webapp/findQueryHistory', { page: 'first', size: '10' }, basic('admin'));
  expect(wrong.status).toBe(400);
});

test.each([
  ['/webapp/getAllBackends', [200, 200, 403]],
  ['/webapp/findQueryHistory', [200, 200, 403]],
  ['/webapp/getDistribution', [200, 200, 403]],
  ['/webapp/getUIConfiguration', [200, 200, 403]],
  ['/webapp/getRoutingRules', [200, 403, 403]],
  ['/webapp/deleteBackend', [200, 403, 403]],
] as const)('the roles of %s', async (path, statuses) => {
  const method = /UIConfiguration|RoutingRules/.test(path) ? 'GET' : 'POST';
  const found = await Promise.all(
    ['admin', 'user', 'api'].map(async (name) => {
      const headers = { 'content-type': 'application/json', ...basic(name) };
      const body = method === 'POST' ? JSON.stringify({ name: 'none', page: 1, size: 10 }) : undefined;
      return (await fetch(`${gateway.url}${path}`, { method, headers, ...(body === undefined ? {} : { body }) }))
        .status;
    }),
  );
  expect(found).toEqual(statuses);
});

test.each([
  ['ResourceGroup', 400],
  ['Selector', 409],
  ['GlobalProperty', 400],
])('USER may change a %s, API may not', async (kind, status) => {
  // Refused for what it says, not for who says it.
  expect((await call(`/webapp/save${kind}`, { data: {} }, basic('user'))).status).toBe(status);
  expect((await call(`/webapp/save${kind}`, { data: {} }, basic('api'))).status).toBe(403);
});

test('USER sees own queries alone, ADMIN all', async () => {
  const engine = await startSimulatedEngine({ name: 'e', productName: 'Trino', queuedPolls: 0 });
  const added = await call('/gateway/backend/modify/add', { name: 'e', proxyTo: engine.url }, basic('api'));
  expect(added.status).toBe(200);
  for (const user of ['user', 'user', 'somebody']) {
    const submit = () =>
      fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers: { 'X-Trino-User': user }, body: 'SELECT 1' });
    await expect.poll(async () => ((await (await submit()).json()) as { error?: unknown }).error).toBeUndefined();
  }
  for (const [name, distribution, users] of [
    ['user', { e: 2 }, ['user', 'user']],
    ['admin', { e: 3 }, ['somebody', 'user', 'user']],
  ] as const) {
    const view = async (path: string) =>
      (await fetch(`${gateway.url}/trino-gateway/api/${path}`, { headers: basic(name) })).json();
    if (name === 'user') {
      await expect.poll(() => view('queryHistoryDistribution')).toEqual(distribution);
      const queries = (await view('queryHistory')) as { user: string }[];
      expect(queries.map(({ user }) => user)).toEqual(users);
    }
    const found = async () => {
      const response = await call('/webapp/findQueryHistory', { page: 1, size: 10 }, basic(name));
      const { data } = (await response.json()) as { data: { rows: { user: string }[] } };
      return data.rows.map(({ user }) => user).sort();
    };
    await expect.poll(found).toEqual(users);
    const ofOther = await call('/webapp/findQueryHistory', { page: 1, size: 10, user: 'somebody' }, basic(name));
    expect(await ofOther.json()).toMatchObject({ data: { total: name === 'user' ? 2 : 1 } });
  }
  await engine.close();
});

describe('hidden pages', () => {
  const start = (more: object) =>
    world.start({
      ...access,
      dataStore: { jdbcUrl: 'jdbc:sqlite::memory:' },
      presetUsers: {
        admin: { password: 'x', privileges: 'ADMIN' },
        user: { password: 'x', privileges: 'USER' },
      },
      pagePermissions: { user: 'history_cluster' },
      ...more,
    });
  const calls = [
    ['POST', '/webapp/getDistribution'],
    ['GET', '/api/overview'],
    ['POST', '/webapp/findQueryHistory'],
    ['POST', '/webapp/getAllBackends'],
    ['POST', '/webapp/findSelector'],
    ['GET', '/webapp/getUIConfiguration'],
  ] as const;
  const statuses = (url: string, name: string) =>
    Promise.all(
      calls.map(async ([method, path]) => (await fetch(url + path, { method, headers: basic(name) })).status),
    );

  test('calls of pages that a role does not see, or nobody does, are refused', async () => {
    const other = await start({ uiConfiguration: { disablePages: ['history', 'dashboard'] } });
    expect(await statuses(other.url, 'user')).toEqual([403, 403, 403, 200, 403, 200]);
    expect(await statuses(other.url, 'admin')).toEqual([403, 403, 403, 200, 200, 200]);
    const refused = await fetch(`${other.url}/webapp/findQueryHistory`, { method: 'POST', headers: basic('admin') });
    expect(await refused.text()).toContain('page history: uiConfiguration.disablePages switches it off');
    const user = await fetch(`${other.url}/webapp/findSelector`, { method: 'POST', headers: basic('user') });
    expect(await user.text()).toContain('pagePermissions does not give it to');
  });

  test('hiddenPageCalls: allow answers them', async () => {
    const other = await start({ uiConfiguration: { disablePages: ['history'], hiddenPageCalls: 'allow' } });
    expect(await statuses(other.url, 'user')).toEqual([200, 200, 200, 200, 200, 200]);
  });
});

describe('the token of a login', () => {
  const login = async (username: string): Promise<string> => {
    const response = (await (await call('/login', { username, password: 'x' }, {})).json()) as {
      data: { token: string };
    };
    return response.data.token;
  };

  /** A POST without the headers of browsers, some of which `fetch` sends as well. */
  const program = async (path: string, body: string, cookie: string): Promise<number> => {
    const response = await request(`${gateway.url}${path}`, { method: 'POST', headers: { cookie }, body });
    await response.body.dump();
    return response.statusCode;
  };

  test('is accepted in the cookie "token"', async () => {
    const cookie = `token=${await login('admin')}`;
    const listed = await fetch(`${gateway.url}/gateway/backend/all`, { headers: { cookie } });
    expect(listed.status).toBe(200);
    const cluster = { name: 'c', proxyTo: 'http://127.0.0.1:9' };
    expect(await program('/gateway/backend/modify/add', JSON.stringify(cluster), cookie)).toBe(200);
    expect(await program('/gateway/backend/modify/delete', 'c', cookie)).toBe(200);
  });

  test('in that cookie is not enough for a write from a page', async () => {
    const headers = {
      cookie: `token=${await login('admin')}`,
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'cors',
    };
    expect((await call('/gateway/backend/modify/delete', 'c', headers)).status).toBe(403);
  });

  test('of somebody else, or none, is refused', async () => {
    for (const token of ['', 'x.y.z', `${await login('user')}x`]) {
      const listed = await fetch(`${gateway.url}/gateway/backend/all`, { headers: { cookie: `token=${token}` } });
      expect(listed.status).toBe(401);
    }
  });
});
