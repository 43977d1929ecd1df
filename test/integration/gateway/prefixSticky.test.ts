import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { clusterKey } from '../../../src/routing/clusterKey.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { sqlite } from '../../support/databases.ts';
import {
  closeAll,
  closing,
  clusterAt,
  startGateway,
  startServer,
  type TestGatewayOptions,
} from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { pathOf, type QueryResults, submit } from '../../support/statementClient.ts';

afterEach(closeAll);

const engine = async (name: string, more = {}) =>
  closing(await startSimulatedEngine({ name, record: true, queuedPolls: 2, ...more }));
/** A replica of its own: without a database that shares what another one has learned. */
const gateway = (options: TestGatewayOptions) =>
  startGateway({ ...options, dataPlane: { prefixSticky: true, ...options.dataPlane } });
/** An empty database. */
async function database(): Promise<KnexStore> {
  const server = await sqlite.start();
  const store = await openStore({ ...(await server.create()), runMigrations: true, logger: pino({ level: 'silent' }) });
  closing({ close: () => store.close().then(() => server.dispose()) });
  return store;
}
const user = ['X-Engine-User', 'test'];
const results = (text: string) => JSON.parse(text) as QueryResults;
const unknownId = '20261121_015745_00042_strng';

/** A cluster that reports its requests. */
const echo = (name: string, seen: string[] = []) =>
  startServer((request, response) => {
    request.resume();
    seen.push(`${request.method} ${request.url}`);
    response.setHeader('x-name', name);
    const prefix = request.headers['x-forwarded-prefix'] ?? null;
    response.end(JSON.stringify({ prefix, coordinatorId: 'strng' }));
  });

describe('follow-ups', () => {
  test('go to their cluster by the URL alone, on a replica that knows nothing', async () => {
    const engines = [await engine('a'), await engine('b'), await engine('c')];
    const clusters = engines.map((one) => clusterAt(one.name, one.url));
    const one = await gateway({ clusters });
    for (let count = 0; count < 9; count++) {
      const other = await gateway({ clusters });
      let page = await submit(one.url, 'SELECT 1');
      const owner = engines.find(({ suffix }) => page.id.endsWith(suffix))!;
      for (let turn = 0; page.nextUri !== undefined; turn++) {
        for (const uri of [page.nextUri, page.infoUri]) {
          expect(pathOf(uri)).toMatch(new RegExp(`^/${clusterKey(owner.name)}/(v1/statement|ui)/`));
        }
        page = results((await send([other, one][turn % 2]!.url, pathOf(page.nextUri), { headers: user })).text);
        expect(page.error).toBeUndefined();
      }
      const metrics = await other.registry.metrics();
      expect(metrics).toContain('source="prefix"');
      expect(metrics).not.toMatch(/source="(asked|unknown)"/);
    }
    for (const { requests } of engines) for (const { url } of requests) expect(url).toMatch(/^\/(v1|ui)\//);
  });

  test('an engine receives its key after the prefix of a trusted proxy, and on statement paths alone', async () => {
    const a = await echo('a');
    const proxied = { trustPeer: () => true };
    const one = await gateway({ clusters: [clusterAt('a', a.url)], dataPlane: proxied });
    const prefixAt = async (path: string, headers: string[], method = 'GET') =>
      JSON.parse((await send(one.url, path, { method, headers })).text).prefix;
    const key = clusterKey('a');
    expect(await prefixAt('/v1/statement', [], 'POST')).toBe(`/${key}`);
    expect(await prefixAt('/v1/statement', ['X-Forwarded-Prefix', '/sql/'], 'POST')).toBe(`/sql/${key}`);
    expect(await prefixAt(`/${key}/v1/statement/queued/${unknownId}/y/1`, [])).toBe(`/${key}`);
    expect(await prefixAt(`/v1/statement/queued/${unknownId}/y/1`, [])).toBe(`/${key}`);
    expect(await prefixAt(`/v1/query/${unknownId}`, ['x-forwarded-prefix', '/sql'])).toBe('/sql');
    expect(await prefixAt('/v1/info', [])).toBeNull();
    const untrusting = await gateway({ clusters: [clusterAt('a', a.url)] });
    const answer = await send(untrusting.url, '/v1/statement', {
      method: 'POST',
      headers: ['X-Forwarded-Prefix', '/x'],
    });
    expect(JSON.parse(answer.text).prefix).toBe(`/${key}`);
  });

  test('a submission that is repeated elsewhere sends the other cluster its own key', async () => {
    const dead = await startServer((request) => void request.socket.destroy());
    const b = await echo('b');
    const one = await gateway({ clusters: [clusterAt('a', dead.url), clusterAt('b', b.url)], random: () => 0 });
    const answer = await send(one.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect(JSON.parse(answer.text).prefix).toBe(`/${clusterKey('b')}`);
  });

  test('of a cluster that was deactivated, or deleted and is remembered, still reach it', async () => {
    const [a, b] = [await engine('a'), await engine('b')];
    const one = await gateway({ clusters: [clusterAt('a', a.url)] });
    const started = await submit(one.url, 'SELECT 1');
    const inactive = await gateway({ clusters: [clusterAt('a', a.url, { active: false }), clusterAt('b', b.url)] });
    expect((await send(inactive.url, pathOf(started.nextUri!), { headers: user })).status).toBe(200);
    one.table.setInputs({ clusters: [clusterAt('b', b.url)], rules: null });
    for (const path of [pathOf(started.nextUri!), `/${clusterKey('a')}/v1/spooled/download/x`]) {
      await send(one.url, path, { headers: user });
      expect(a.requests.at(-1)!.url).toBe(path.slice(clusterKey('a').length + 1));
    }
    expect(b.requests).toEqual([]);
  });
});

describe('what may be asked with a key', () => {
  const a = clusterKey('a');
  const id = unknownId;
  test.each([
    ['GET', `/v1/statement/queued/${id}/y/1`, 'a'],
    ['HEAD', `/v1/statement/executing/${id}/y/1`, 'a'],
    ['DELETE', `/v1/statement/executing/partialCancel/${id}/0/y/1`, 'a'],
    ['GET', `/v1/statement/executing/${id}/y/1?targetResultSize=1MB`, 'a'],
    ['GET', `/v1/query/${id}`, 'a'],
    ['DELETE', `/v1/query/${id}`, 'a'],
    ['GET', `/ui/query.html?${id}`, 'a'],
    ['GET', `/ui/api/query/${id}`, 'a'],
    ['GET', '/v1/spooled/download/AbC-_0', 'a'],
    ['GET', '/v1/spooled/ack/AbC-_0', 'a'],
    // What a page of the interface loads, and a handshake, go the usual way.
    ['GET', '/ui/vendor/x.js?v=1', 307],
    ['GET', '/ui', 307],
    ['GET', '/ui/', 307],
    ['GET', '/oauth2/callback?state=x', 307],
    ['POST', '/v1/statement', 405],
    ['POST', `/v1/statement/executing/${id}/y/1`, 405],
    ['PUT', `/v1/query/${id}/killed`, 405],
    ['PATCH', `/v1/query/${id}`, 405],
    ['GET', '/v1/info', 404],
    ['GET', `/v1/info?query_id=${id}`, 404],
    ['GET', '/v1/query', 404],
    ['GET', `/v1/query?query_id=${id}`, 404],
    ['GET', '/v1/node', 404],
    ['GET', '/v1/extra', 404],
    ['GET', '/v1/spooled', 404],
    ['GET', '/v1/spooledX/y', 404],
    ['DELETE', '/ui/x', 404],
    ['GET', '/v1/statement/executing/..%2f..%2finfo/y', 400],
    ['GET', `/v1/spooled/download/%2e%2e/x`, 400],
    // Below no proxied path: the API's, which has no such route.
    ['GET', '/gateway/backend/all', 418],
    ['GET', `/${clusterKey('b')}/v1/query/${id}`, 418],
  ])('%s %s: %s', async (method, path, expected) => {
    const seen: string[] = [];
    const other: string[] = [];
    const one = await gateway({
      clusters: [
        clusterAt('a', (await echo('a', seen)).url, { active: false }),
        clusterAt('b', (await echo('b', other)).url),
      ],
      dataPlane: { extraWhitelistPaths: [{ matches: (candidate) => candidate === '/v1/extra' }] },
    });
    const answer = await send(one.url, `/${a}${path}`, { method, headers: user });
    expect(answer.headers['x-name'] ?? answer.status).toBe(expected);
    expect(seen).toEqual(expected === 'a' ? [`${method} ${path}`] : []);
    expect(other).toEqual([]);
    if (expected === 307) {
      for (const outer of ['', '/sql']) {
        const url = new URL(String(answer.headers.location), `https://gateway${outer}/${a}${path}`);
        expect(url.href).toBe(`https://gateway${outer}${path}`);
      }
    }
    if (expected === 405 && method !== 'PATCH') expect(answer.headers.allow).toBe('GET, HEAD, DELETE, OPTIONS');
  });

  test('a key of no cluster is refused: in the protocol on statement paths, by HTTP elsewhere', async () => {
    const seen: string[] = [];
    const a = await echo('a', seen);
    const one = await gateway({ clusters: [clusterAt('a', a.url)], store: await database() });
    const stray = clusterKey('nobody');
    const refused = await send(one.url, `/${stray}/v1/statement/executing/${unknownId}/y/1`);
    expect([refused.status, results(refused.text)]).toMatchObject([
      200,
      { id: unknownId, error: { errorName: 'NOT_FOUND', message: expect.stringContaining('names no cluster') } },
    ]);
    expect(results(refused.text).nextUri).toBeUndefined();
    for (const path of [`/v1/query/${unknownId}`, '/v1/spooled/download/x']) {
      expect((await send(one.url, `/${stray}${path}`)).status).toBe(404);
    }
    expect(seen).toEqual([]);
    expect(await one.registry.metrics()).toContain('engine_gateway_refusals_total{reason="unknown_prefix"} 3');
  });

  test('while the database is unavailable, a key of no cluster may be one that this replica has not heard of', async () => {
    const one = await gateway({ clusters: [] });
    const path = `/${clusterKey('late')}/v1/statement/executing/${unknownId}/y/1`;
    const answer = await send(one.url, path);
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    one.table.setInputs({ clusters: [clusterAt('late', (await echo('late')).url)] });
    expect((await send(one.url, path)).headers['x-name']).toBe('late');
  });

  describe('a segment of a result whose cluster this replica has not heard of', () => {
    const path = `/${clusterKey('late')}/v1/spooled/download/x`;

    test('comes from where another replica has seen it, according to the database', async () => {
      const store = await database();
      const late = await engine('late');
      const other = await gateway({ clusters: [], store });
      await submit((await gateway({ clusters: [clusterAt('late', late.url)], store })).url, 'SELECT 1');
      await send(other.url, path);
      expect(late.requests.at(-1)!.url).toBe('/v1/spooled/download/x');
    });

    test('is put off while the database is unavailable', async () => {
      const one = await gateway({ clusters: [] });
      const answer = await send(one.url, path);
      expect([answer.status, answer.headers['retry-after'], answer.text]).toEqual([
        503,
        '1',
        expect.stringContaining('Which cluster holds this segment of a result is not known at the moment'),
      ]);
      one.table.setInputs({ clusters: [clusterAt('late', (await echo('late')).url)] });
      expect((await send(one.url, path)).headers['x-name']).toBe('late');
    });

    test('is put off while the database hangs', async () => {
      const store = await database();
      const coordinators = Object.create(store.coordinators) as typeof store.coordinators;
      const one = await gateway({
        clusters: [],
        store: { coordinators, queries: store.queries, history: store.history },
        stickiness: { lookupTimeout: 50 },
      });
      coordinators.all = () => new Promise(() => undefined);
      expect((await send(one.url, path)).status).toBe(503);
    });

    test('does not keep the database busy, whatever keys somebody makes up', async () => {
      const store = await database();
      const coordinators = Object.create(store.coordinators) as typeof store.coordinators;
      let looks = 0;
      coordinators.all = () => {
        looks++;
        return store.coordinators.all();
      };
      let now = 0;
      const one = await gateway({
        clusters: [],
        store: { coordinators, queries: store.queries, history: store.history },
        clock: { ...systemClock, monotonic: () => now },
      });
      looks = 0;
      for (const [at, expected] of [
        [1, 1],
        [1_000, 1],
        [1_001, 2],
        [1_002, 2],
      ] as const) {
        now = at;
        const keys = ['x', 'y', 'z'].map((name) => clusterKey(name));
        const answers = await Promise.all(keys.map((key) => send(one.url, `/${key}/v1/spooled/download/x`)));
        expect(answers.map(({ status }) => status)).toEqual([404, 404, 404]);
        expect(looks).toBe(expected);
      }
    });
  });

  test.each([
    ['K0123456789abcdef'],
    ['k0123456789abcdeF'],
    ['k0123456789abcde'],
    ['k0123456789abcdef0'],
    [`%6b${clusterKey('a').slice(1)}`],
    ['a'],
  ])('%s is no key: the path is not proxied', async (segment) => {
    const a = await echo('a');
    const one = await gateway({ clusters: [clusterAt('a', a.url)] });
    expect((await send(one.url, `/${segment}/v1/query/${unknownId}`)).status).toBe(418);
  });

  test('without the mode a key means nothing, and no cluster receives one', async () => {
    const a = await echo('a');
    const one = await startGateway({ clusters: [clusterAt('a', a.url)] });
    expect((await send(one.url, `/${clusterKey('a')}/v1/query/${unknownId}`)).status).toBe(418);
    const answer = await send(one.url, '/v1/statement', { method: 'POST', body: 'x' });
    expect(JSON.parse(answer.text).prefix).toBeNull();
  });
});
