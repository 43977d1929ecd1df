import { pino } from 'pino';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { clusterKey } from '../../../src/routing/statementProtocol.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { sqlite } from '../../support/databases.ts';
import { closeAll, closing, clusterAt, startGateway, startServer } from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { pathOf, type QueryResults, submit } from '../../support/statementClient.ts';

afterEach(closeAll);

const engine = async (name: string, more = {}) =>
  closing(await startSimulatedEngine({ name, record: true, queuedPolls: 2, ...more }));
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
const echo = (name: string, seen: string[] = [], coordinatorId = 'strng') =>
  startServer((request, response) => {
    request.resume();
    seen.push(`${request.method} ${request.url}`);
    response.setHeader('x-name', name);
    const prefix = request.headers['x-forwarded-prefix'] ?? null;
    response.end(JSON.stringify({ prefix, coordinatorId }));
  });

describe('queries of clients that take spooled results', () => {
  const spooled = [...user, 'X-Engine-Query-Data-Encoding', 'json'];

  test('have the key of their cluster in their URLs, and segments come from that cluster', async () => {
    const engines = [await engine('a'), await engine('b'), await engine('c')];
    const clusters = engines.map((one) => clusterAt(one.name, one.url));
    const one = await startGateway({ clusters });
    const other = await startGateway({ clusters });
    for (let count = 0; count < 6; count++) {
      const submitted = await send(one.url, '/v1/statement', { method: 'POST', headers: spooled, body: 'SELECT 1' });
      let page = results(submitted.text);
      const owner = engines.find(({ suffix }) => page.id.endsWith(suffix))!;
      const key = clusterKey(owner.name);
      while (page.nextUri !== undefined) {
        for (const uri of [page.nextUri, page.infoUri]) {
          expect(pathOf(uri)).toMatch(new RegExp(`^/${key}/(v1/statement|ui)/`));
        }
        page = results((await send(one.url, pathOf(page.nextUri), { headers: user })).text);
        expect(page.error).toBeUndefined();
      }
      // A replica that knows nothing of the query.
      await send(other.url, `/${key}/v1/spooled/download/${count}`);
      expect(owner.requests.at(-1)!.url).toBe(`/v1/spooled/download/${count}`);
    }
    for (const { requests } of engines) for (const { url } of requests) expect(url).toMatch(/^\/(v1|ui)\//);
  });

  test('an engine receives its key after the prefix of a trusted proxy, if its URLs need the key', async () => {
    const [a, b] = [await echo('a'), await echo('b', [], 'other')];
    const clusters = [clusterAt('a', a.url), clusterAt('b', b.url, { active: false })];
    const one = await startGateway({ clusters, dataPlane: { trustPeer: () => true }, store: await database() });
    const prefixAt = async (url: string, path: string, headers: string[], method = 'GET') =>
      JSON.parse((await send(url, path, { method, headers })).text).prefix;
    const key = clusterKey('a');
    const outer = ['X-Forwarded-Prefix', '/sql/'];
    expect(await prefixAt(one.url, '/v1/statement', spooled, 'POST')).toBe(`/${key}`);
    expect(await prefixAt(one.url, '/v1/statement', [...spooled, ...outer], 'POST')).toBe(`/sql/${key}`);
    expect(await prefixAt(one.url, '/v1/statement', user, 'POST')).toBeNull();
    expect(await prefixAt(one.url, `/${key}/v1/statement/queued/${unknownId}/y/1`, [])).toBe(`/${key}`);
    expect(await prefixAt(one.url, `/v1/statement/queued/${unknownId}/y/1`, [])).toBeNull();
    expect(await prefixAt(one.url, '/v1/info', spooled)).toBeNull();
    const untrusting = await startGateway({ clusters });
    const claimed = [...spooled, 'X-Forwarded-Prefix', '/x'];
    expect(await prefixAt(untrusting.url, '/v1/statement', claimed, 'POST')).toBe(`/${key}`);
    const alone = await startGateway({ clusters: clusters.slice(0, 1) });
    expect(await prefixAt(alone.url, '/v1/statement', spooled, 'POST')).toBeNull();
    const unforwarded = await startGateway({ clusters, settings: { forwardedHeadersEnabled: false } });
    expect(await prefixAt(unforwarded.url, '/v1/statement', spooled, 'POST')).toBeNull();
  });

  test('a submission that is repeated elsewhere sends the other cluster its own key', async () => {
    const dead = await startServer((request) => void request.socket.destroy());
    const b = await echo('b');
    const one = await startGateway({ clusters: [clusterAt('a', dead.url), clusterAt('b', b.url)], random: () => 0 });
    const answer = await send(one.url, '/v1/statement', { method: 'POST', headers: spooled, body: 'SELECT 1' });
    expect(JSON.parse(answer.text).prefix).toBe(`/${clusterKey('b')}`);
  });

  test('segments of a cluster that was deactivated, or deleted and is remembered, still reach it', async () => {
    const [a, b] = [await engine('a'), await engine('b')];
    const one = await startGateway({ clusters: [clusterAt('a', a.url)] });
    await submit(one.url, 'SELECT 1');
    const inactive = await startGateway({
      clusters: [clusterAt('a', a.url, { active: false }), clusterAt('b', b.url)],
    });
    one.table.setInputs({ clusters: [clusterAt('b', b.url)], rules: null });
    for (const [gateway, segment] of [
      [inactive, 'x'],
      [one, 'y'],
    ] as const) {
      await send(gateway.url, `/${clusterKey('a')}/v1/spooled/download/${segment}`, { headers: user });
      expect(a.requests.at(-1)!.url).toBe(`/v1/spooled/download/${segment}`);
    }
    expect(b.requests).toEqual([]);
  });
});

describe('what may be asked with a key', () => {
  const a = clusterKey('a');
  const id = unknownId;
  test.each([
    ['GET', '/v1/spooled/download/AbC-_0', 'a'],
    ['GET', '/v1/spooled/ack/AbC-_0', 'a'],
    // What a page of the interface loads, and a handshake, go the usual way.
    ['GET', `/ui/query.html?${id}`, 307],
    ['GET', `/ui/api/query/${id}`, 307],
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
    ['GET', `/v1/query/${id}`, 404],
    ['DELETE', `/v1/query/${id}`, 404],
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
    const one = await startGateway({
      clusters: [
        clusterAt('a', (await echo('a', seen)).url, { active: false }),
        clusterAt('b', (await echo('b', other, 'other')).url),
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

  test('the segment of a key of no cluster is refused', async () => {
    const seen: string[] = [];
    const a = await echo('a', seen);
    const one = await startGateway({ clusters: [clusterAt('a', a.url)], store: await database() });
    expect((await send(one.url, `/${clusterKey('nobody')}/v1/spooled/download/x`)).status).toBe(404);
    expect(seen).toEqual([]);
    expect(await one.registry.metrics()).toContain('engine_gateway_refusals_total{reason="unknown_prefix"} 1');
  });

  describe('a segment of a result whose cluster this replica has not heard of', () => {
    const path = `/${clusterKey('late')}/v1/spooled/download/x`;

    test('comes from where another replica has seen it, according to the database', async () => {
      const store = await database();
      const late = await engine('late');
      const other = await startGateway({ clusters: [], store });
      await submit((await startGateway({ clusters: [clusterAt('late', late.url)], store })).url, 'SELECT 1');
      await send(other.url, path);
      expect(late.requests.at(-1)!.url).toBe('/v1/spooled/download/x');
    });

    test('is put off while the database is unavailable', async () => {
      const one = await startGateway({ clusters: [] });
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
      const one = await startGateway({
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
      const one = await startGateway({
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
        const responses = await Promise.all(keys.map((key) => send(one.url, `/${key}/v1/spooled/download/x`)));
        expect(responses.map(({ status }) => status)).toEqual([404, 404, 404]);
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
    const one = await startGateway({ clusters: [clusterAt('a', a.url)] });
    expect((await send(one.url, `/${segment}/v1/spooled/download/x`)).status).toBe(418);
  });
});
