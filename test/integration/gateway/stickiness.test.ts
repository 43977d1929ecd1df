import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
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
import { pathOf, type QueryResults, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
let store: KnexStore;
beforeEach(async () => {
  store = await world.store();
});
afterEach(closeAll);

const engine = async (name: string, more = {}) =>
  closing(await startSimulatedEngine({ name, record: true, queuedPolls: 2, ...more }));
const gateway = (options: TestGatewayOptions) => startGateway({ store, ...options });
const user = ['X-Engine-User', 'test'];
const results = (text: string) => JSON.parse(text) as QueryResults;

/** Follows a query to its end, each request at the next of the gateways. */
async function followAlternately(urls: readonly string[], start: QueryResults): Promise<QueryResults> {
  let page = start;
  for (let turn = 0; page.nextUri !== undefined; turn++) {
    const answer = await send(urls[turn % urls.length]!, pathOf(page.nextUri), { headers: user });
    expect(answer.status).toBe(200);
    page = results(answer.text);
  }
  return page;
}

describe('replicas and restarts', () => {
  test('two replicas serve alternate requests of one query; nobody is asked', async () => {
    const clusters = [await engine('a'), await engine('b'), await engine('c')].map((one) =>
      clusterAt(one.name, one.url),
    );
    let count = 0;
    // Each cluster in its turn, so that all of them have queries.
    const one = await gateway({ clusters, random: () => ((count % 3) + 0.5) / 3 });
    const other = await gateway({ clusters, store: closing(await world.store()) });
    for (; count < 12; count++) {
      const last = await followAlternately([other.url, one.url], await submit(one.url, 'SELECT 1'));
      expect(last.error).toBeUndefined();
    }
    expect(await other.registry.metrics()).not.toContain('source="asked"');
    expect((await store.coordinators.all()).map((row) => row.cluster).sort()).toEqual(['a', 'b', 'c']);
  });

  test('every path of a query leads to its cluster, those of additional statement paths among them', async () => {
    const asked: string[] = [];
    const cluster = async (name: string) => {
      const { url } = await startServer((request, response) => {
        request.resume();
        asked.push(`${name} ${request.method} ${request.url}`);
        const id = `20261121_015745_00042_xxxx${name}`;
        response.end(JSON.stringify({ id, nextUri: `${url}/api/sql/queued/${id}/y/1` }));
      });
      return clusterAt(name, url, { routingGroup: name });
    };
    const clusters = [await cluster('a'), await cluster('b')];
    const dataPlane = { additionalStatementPaths: ['/api/sql/'] };
    const one = await gateway({ clusters, dataPlane });
    const other = await gateway({ clusters, dataPlane, store: closing(await world.store()) });
    for (const group of ['b', 'a']) {
      const headers = [...user, 'X-Engine-Routing-Group', group];
      const answer = await send(one.url, '/api/sql', { method: 'POST', body: 'SELECT 1', headers });
      const { id } = results(answer.text);
      expect([answer.status, id]).toEqual([200, `20261121_015745_00042_xxxx${group}`]);
      const requests = [
        ['GET', `/api/sql/queued/${id}/y/1`],
        ['DELETE', `/api/sql/executing/partialCancel/${id}/0/y/1`],
        ['GET', `/v1/statement/executing/${id}/y/1`],
        ['DELETE', `/v1/statement/executing/partialCancel/${id}/0/y/1`],
        ['GET', `/v1/query/${id}`],
        ['PUT', `/v1/query/${id}/killed`],
        ['GET', `/ui/query.html?${id}`],
        ['GET', `/ui/api/query/${id}`],
      ] as const;
      asked.length = 0;
      for (const [method, path] of requests) expect((await send(other.url, path, { method })).status).toBe(200);
      expect(asked).toEqual(requests.map((request) => `${group} ${request.join(' ')}`));
    }
    expect(one.records.map(({ queryId, routingGroup }) => [queryId.at(-1), routingGroup])).toEqual([
      ['b', 'b'],
      ['a', 'a'],
    ]);
  });

  test('a restarted gateway serves running queries, also of clusters that are inactive, unhealthy, deleted or moved', async () => {
    const a = await engine('a');
    const first = await gateway({ clusters: [clusterAt('a', a.url)] });
    const running = await Promise.all([1, 2, 3, 4].map(() => submit(first.url, 'SELECT 1')));
    await first.close();
    const b = await engine('b');
    const cases = [
      [clusterAt('a', a.url, { active: false }), clusterAt('b', b.url)],
      [clusterAt('a', a.url)],
      [clusterAt('b', b.url)],
      [clusterAt('a', b.url)],
    ];
    for (const [index, clusters] of cases.entries()) {
      const next = await gateway({ clusters, healthy: index !== 1 });
      expect((await followAlternately([next.url], running[index]!)).error).toBeUndefined();
      await next.close();
    }
    expect(b.requests).toEqual([]);
  });

  test('the row of a coordinator is stored before its first id is seen', async () => {
    const a = await engine('a');
    const one = await gateway({ clusters: [clusterAt('a', a.url)] });
    await submit(one.url, 'SELECT 1');
    expect(await store.coordinators.get(a.suffix)).toMatchObject({ cluster: 'a', proxyTo: a.url });
  });

  test('while the database is unavailable queries run all the same, by memory', async () => {
    const a = await engine('a');
    const one = await startGateway({ clusters: [clusterAt('a', a.url)] });
    expect((await followAlternately([one.url], await submit(one.url, 'SELECT 1'))).error).toBeUndefined();
  });

  test('a database that hangs delays the first id by 250 ms, and is written later', async () => {
    const a = await engine('a');
    let letGo: (() => void) | null = null;
    const hanging = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const coordinators = Object.create(store.coordinators) as typeof store.coordinators;
    coordinators.learn = async (row) => {
      await hanging;
      return store.coordinators.learn(row);
    };
    const one = await gateway({
      clusters: [clusterAt('a', a.url)],
      store: { ...store, coordinators, queries: store.queries, history: store.history },
    });
    const before = performance.now();
    const started = await submit(one.url, 'SELECT 1');
    const took = performance.now() - before;
    expect(took).toBeGreaterThan(200);
    expect(took).toBeLessThan(8_000);
    expect((await followAlternately([one.url], started)).error).toBeUndefined();
    letGo!();
    await until(async () => (await store.coordinators.get(a.suffix)) !== null, 'the row');
  });
});

describe('ids without a known suffix', () => {
  const respondingWith = (id: string) =>
    startServer((request, response) => {
      request.resume();
      if (request.method === 'POST') response.end(JSON.stringify({ id, nextUri: 'x' }));
      else if (request.url!.includes(id)) response.end(JSON.stringify({ id, mine: true }));
      else response.writeHead(404).end();
    });

  test('of another form go by full id, on every replica', async () => {
    const a = await respondingWith('q-1');
    const b = await respondingWith('q-2');
    const clusters = [clusterAt('a', a.url), clusterAt('b', b.url, { routingGroup: 'b' })];
    const [one, other] = [await gateway({ clusters }), await gateway({ clusters })];
    await send(one.url, '/v1/statement', { method: 'POST', body: 'x', headers: ['X-Engine-Routing-Group', 'b'] });
    expect(await store.queries.get('q-2')).toMatchObject({ cluster: 'b', proxyTo: b.url });
    for (const { url } of [one, other]) {
      expect(results((await send(url, '/v1/statement/executing/q-2/1')).text)).toMatchObject({ mine: true });
    }
  });

  test('a database of a gateway before knows running queries in query_history only', async () => {
    const id = '20261121_015745_00007_older';
    const [a, b] = [await respondingWith('none'), await respondingWith(id)];
    await store.history.insert([
      {
        queryId: id,
        queryText: 'SELECT 1',
        user: null,
        source: null,
        backendUrl: b.url,
        created: 1,
        routingGroup: null,
        externalUrl: null,
        cluster: '',
        decision: null,
      },
    ]);
    const one = await gateway({ clusters: [clusterAt('a', a.url), clusterAt('b', b.url)] });
    expect((await send(one.url, `/v1/statement/executing/${id}/y/1`)).status).toBe(200);
    expect(await one.registry.metrics()).toContain('engine_gateway_query_lookups_total{source="history"} 1');
  });
});

describe('unknown ids', () => {
  const id = '20261121_015745_00042_strng';
  const path = `/v1/statement/executing/${id}/y1/2?a=b`;
  const secrets = [
    ...['Authorization', 'Basic eA==', 'Proxy-Authorization', 'Basic eQ==', 'Cookie', 'session=s3cret'],
    ...[
      'X-Engine-Extra-Credential',
      'token=s3cret',
      'X-Engine-User',
      'alice',
      'X-Forwarded-Client-Cert',
      'Subject="s3cret"',
    ],
  ];
  let asked: { readonly name: string; readonly line: string; readonly headers: readonly string[] }[];
  beforeEach(() => {
    asked = [];
  });
  const lines = () => asked.map(({ name, line }) => `${name} ${line}`).sort();

  /** What a cluster answers at `/v1/info`: its coordinator's id, a whole answer, or nothing. */
  type Info = string | { readonly status?: number; readonly body: string } | 'silent';
  const cluster = async (name: string, info: Info, mayResponse: () => boolean = () => true) => {
    const { url } = await startServer(async (request, response) => {
      request.resume();
      asked.push({ name, line: `${request.method} ${request.url}`, headers: request.rawHeaders });
      if (request.url !== '/v1/info') response.end(name);
      else if (info !== 'silent') {
        await until(mayResponse, 'what the answer waits for');
        const { status = 200, body } =
          typeof info === 'string' ? { body: JSON.stringify({ coordinatorId: info }) } : info;
        response.writeHead(status).end(body);
      }
    });
    return clusterAt(name, url, { active: name !== 'b' });
  };
  const clustersOf = (...infos: readonly Info[]) =>
    Promise.all(infos.map((info, index) => cluster('abcdef'[index]!, info)));

  test('all clusters are asked which coordinator they are, with nothing of the request; the only one gets it', async () => {
    const one = await gateway({ clusters: await clustersOf('other', 'strng', 'third') });
    const answer = await send(one.url, path, { headers: [...secrets] });
    expect([answer.status, answer.text]).toEqual([200, 'b']);
    expect(lines()).toEqual(['a GET /v1/info', 'b GET /v1/info', `b GET ${path}`, 'c GET /v1/info']);
    for (const { line, headers } of asked) {
      const names = headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
      if (line === 'GET /v1/info') expect(names.sort()).toEqual(['accept', 'connection', 'host', 'user-agent']);
      else expect(headers).toContain('Basic eA==');
    }
    asked = [];
    expect((await send(one.url, path)).text).toBe('b');
    expect(lines()).toEqual([`b GET ${path}`]);
    await until(async () => (await store.coordinators.get('strng')) !== null, 'the row');
    const other = await gateway({ clusters: [] });
    expect((await send(other.url, path)).text).toBe('b');
  });

  test.each([
    ['DELETE', `/v1/query/${id}`],
    ['HEAD', `/v1/query/${id}`],
    ['PUT', `/v1/query/${id}/killed`],
    ['GET', `/ui/api/query/${id}`],
    ['GET', `/ui/query.html?${id}`],
  ])('%s %s finds its cluster', async (method, target) => {
    const one = await gateway({ clusters: await clustersOf('other', 'strng') });
    expect((await send(one.url, target, { method })).status).toBe(200);
    expect(lines().filter((line) => !line.endsWith('/v1/info'))).toEqual([`b ${method} ${target}`]);
  });

  const unknown = `Query ${id} is not known to any cluster behind this gateway.`;
  test.each<[string, readonly Info[]]>([
    ['no cluster has such a coordinator', ['other', 'third']],
    ['two clusters say that they have it', ['strng', 'strng', 'other']],
    ['a cluster that does not say which it is may be the owner', ['strng', { body: '{"starting":false}' }]],
    ['a cluster that asks for credentials may be the owner', ['strng', { status: 401, body: '' }]],
    ['a cluster that redirects may be the owner', ['strng', { status: 302, body: '{"coordinatorId":"other"}' }]],
    ['a cluster that sends no JSON may be the owner', ['strng', { body: 'x' }]],
    ['a cluster that sends too much may be the owner', ['strng', { body: `{"x":"${'x'.repeat(100_000)}"}` }]],
    ['a cluster that does not answer may be the owner', ['strng', 'silent']],
    ['the id has another form', [{ body: '{"coordinatorId":["strng"]}' }]],
  ])('are refused, and nobody gets the request: %s', async (_why, infos) => {
    const one = await gateway({ clusters: await clustersOf(...infos) });
    const refused = await send(one.url, path, { headers: secrets });
    expect([refused.status, results(refused.text).error!.message]).toEqual([200, unknown]);
    expect((await send(one.url, `/v1/query/${id}`, { headers: secrets })).status).toBe(404);
    expect(lines()).toEqual(infos.map((_, index) => `${'abcdef'[index]!} GET /v1/info`));
    expect(await store.coordinators.all()).toEqual([]);
  });

  test('a cluster that another name is registered for as well is asked once', async () => {
    const [a, b] = await clustersOf('strng', 'other');
    const one = await gateway({ clusters: [a!, b!, clusterAt('z', a!.proxyTo)] });
    expect((await send(one.url, path)).text).toBe('a');
    expect(lines().filter((line) => line.endsWith('/v1/info'))).toEqual(['a GET /v1/info', 'b GET /v1/info']);
  });

  test('nobody is asked with askClusters: off', async () => {
    const one = await gateway({ clusters: await clustersOf('strng'), settings: { askClusters: 'off' } });
    expect((await send(one.url, `/v1/query/${id}`)).status).toBe(404);
    expect(asked).toEqual([]);
  });

  test('a suffix that a cluster owns is not given to one that says it is its coordinator', async () => {
    await store.coordinators.learn({
      suffix: 'strng',
      cluster: 'gone',
      proxyTo: 'http://127.0.0.1:1',
      lastSeen: Date.now(),
    });
    const one = await gateway({ clusters: await clustersOf('strng') });
    expect((await send(one.url, path, { headers: secrets })).status).toBe(502);
    expect(asked).toEqual([]);
  });

  test('nobody answers: clients ask again, nothing is remembered', async () => {
    const [b] = await clustersOf('strng');
    const one = await gateway({ clusters: [clusterAt('gone', 'http://127.0.0.1:1')] });
    expect((await send(one.url, path)).status).toBe(503);
    one.table.setInputs({ clusters: [b!] });
    await until(async () => (await send(one.url, path)).status === 200, 'the answer');
  });

  test('what is no id of a coordinator is not asked about', async () => {
    const one = await gateway({ clusters: await clustersOf('strng') });
    for (const target of ['/v1/query/some%20thing', '/v1/query/word', '/v1/query/20261121_015745_00042_longer']) {
      expect((await send(one.url, target)).status).toBe(404);
    }
    expect(asked).toEqual([]);
  });

  test('any number of unknown ids asks each cluster once', async () => {
    let mayResponse = false;
    const one = await gateway({ clusters: [await cluster('a', 'other', () => mayResponse)] });
    let looked = 0;
    const many = Array.from({ length: 40 }, async (_, index) => {
      const other = `20261121_015745_${10_000 + index}_m${String(index).padStart(4, '0')}`;
      looked++;
      return (await send(one.url, `/v1/query/${other}`)).status;
    });
    await until(() => looked === 40 && asked.length > 0, 'the question');
    mayResponse = true;
    expect(await Promise.all(many)).toEqual(Array(40).fill(404));
    expect(asked.length).toBeLessThan(3);
  });
});

describe('unknown ids while the database is unavailable', () => {
  const id = '20261121_015745_00042_strng';
  const path = `/v1/statement/executing/${id}/y/1`;
  const cluster = (coordinatorId: string) =>
    startServer((request, response) => {
      response.end(request.url === '/v1/info' ? JSON.stringify({ coordinatorId }) : 'answer');
    });
  const comeAgain = (answer: Awaited<ReturnType<typeof send>>) => {
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    expect(answer.text).toContain(`Which cluster runs query ${id} is not known at the moment`);
  };

  test('no cluster of the table knows it: clients ask again, until somebody does', async () => {
    const one = await gateway({ clusters: [clusterAt('a', (await cluster('other')).url)], store: storeAway });
    for (let count = 1; count <= 3; count++) comeAgain(await send(one.url, path));
    expect(await one.registry.metrics()).toContain('engine_gateway_query_lookups_total{source="undecided"} 3');
    expect(await one.registry.metrics()).toContain('engine_gateway_refusals_total{reason="undecided_query"} 3');
    one.table.setInputs({ clusters: [clusterAt('a', (await cluster('strng')).url)] });
    await until(async () => (await send(one.url, path)).text === 'answer', 'the answer');
  });

  test.each([
    ['there is no cluster', 'GET', path, []],
    ['the query is not of the clusters in the table', 'GET', path, ['other', 'third']],
    ['a request with a body', 'PUT', `/v1/query/${id}/killed`, ['other']],
    ['elsewhere than on statement paths', 'GET', `/v1/query/${id}`, ['other']],
  ] as const)('clients ask again: %s', async (_name, method, target, ids) => {
    const clusters = await Promise.all(
      ids.map(async (one, index) => clusterAt('abc'[index]!, (await cluster(one)).url)),
    );
    for (const statementErrors of ['protocol', 'http'] as const) {
      const one = await gateway({ clusters, store: storeAway, settings: { statementErrors } });
      comeAgain(await send(one.url, target, { method }));
    }
  });

  test('a database that answers too late counts as away', async () => {
    const queries = Object.create(store.queries) as typeof store.queries;
    queries.get = () => new Promise(() => undefined);
    const one = await gateway({
      clusters: [clusterAt('a', (await cluster('other')).url)],
      store: { coordinators: store.coordinators, queries, history: store.history },
      stickiness: { lookupTimeout: 50 },
    });
    comeAgain(await send(one.url, path));
  });

  test('one that is back knows all only after a while; then what it does not know is refused, and remembered', async () => {
    let isAway = true;
    const one = await gateway({
      clusters: [clusterAt('a', (await cluster('other')).url)],
      store: {
        get coordinators() {
          return isAway ? storeAway.coordinators : store.coordinators;
        },
        get queries() {
          return isAway ? storeAway.queries : store.queries;
        },
        history: store.history,
      },
      stickiness: { catchUpTime: 3_000 },
    });
    comeAgain(await send(one.url, path));
    isAway = false;
    comeAgain(await send(one.url, path));
    await until(async () => (await send(one.url, path)).status === 200, 'the refusal');
    expect(results((await send(one.url, path)).text).error!.errorName).toBe('NOT_FOUND');
    expect(await one.registry.metrics()).toContain('source="missed"');
  });
});

describe('owners that are gone', () => {
  test('a cluster that refuses connections: 502 so that clients try again, after a while a refusal in the protocol', async () => {
    const a = await engine('a');
    const one = await gateway({ clusters: [clusterAt('a', a.url)], settings: { ownerGoneAfter: 300 } });
    const { id, nextUri } = await submit(one.url, 'SELECT 1');
    await a.close();
    expect((await send(one.url, pathOf(nextUri!), { headers: user })).status).toBe(502);
    await until(async () => (await send(one.url, pathOf(nextUri!), { headers: user })).status === 200, 'the refusal');
    const { error } = results((await send(one.url, pathOf(nextUri!), { headers: user })).text);
    expect(error).toMatchObject({
      errorName: 'REMOTE_HOST_GONE',
      message: `Query ${id} was lost with its cluster "a": connection refused. Run the query again.`,
    });
  });

  test('a cluster that does not know the query any more: a refusal; with statementErrors: http its own answer', async () => {
    const a = await engine('a');
    const one = await gateway({ clusters: [clusterAt('a', a.url)] });
    const { nextUri } = await submit(one.url, 'SELECT 1');
    await a.restart();
    const { error } = results((await send(one.url, pathOf(nextUri!), { headers: user })).text);
    expect(error!.message).toContain('it does not know the query any more');
    const plain = await gateway({ clusters: [clusterAt('a', a.url)], settings: { statementErrors: 'http' } });
    expect((await send(plain.url, pathOf(nextUri!), { headers: user })).status).toBe(404);
  });

  test('a coordinator that is back under a new suffix: a refusal once that is seen', async () => {
    const a = await engine('a');
    const one = await gateway({ clusters: [clusterAt('a', a.url)] });
    const before = await submit(one.url, 'SELECT 1');
    await a.restart('fresh');
    const after = await submit(one.url, 'SELECT 1');
    expect(after.id).toMatch(/_fresh$/);
    const { error } = results((await send(one.url, pathOf(before.nextUri!), { headers: user })).text);
    expect(error!.message).toContain('it was restarted since');
    expect((await followAlternately([one.url], after)).error).toBeUndefined();
  });

  describe('a coordinator that moved with its cluster to a new address, which nobody could write down', () => {
    const id = '20261121_015745_00042_moved';
    const path = `/v1/statement/executing/${id}/y/1`;
    let status: number;
    let asked: string[];
    const at = (name: string, statusNow: () => number) =>
      startServer((request, response) => {
        request.resume();
        asked.push(name);
        if (request.method === 'POST') response.end(JSON.stringify({ id, nextUri: 'x' }));
        else response.writeHead(statusNow(), { 'x-name': name }).end('{}');
      });
    const moving = async (new_: number) => {
      status = 200;
      asked = [];
      const old = await at('old', () => status);
      const one = await startGateway({ clusters: [clusterAt('a', old.url)], settings: { ownerGoneAfter: 300 } });
      await send(one.url, '/v1/statement', { method: 'POST', body: 'x' });
      one.table.setInputs({ clusters: [clusterAt('a', (await at('new', () => new_)).url)], rules: null });
      return { old, one };
    };
    const errorOf = (text: string) => results(text).error!.message;

    test('is asked where it was as long as it answers there', async () => {
      const { one } = await moving(404);
      expect((await send(one.url, path)).headers['x-name']).toBe('old');
    });

    test('is asked where it is once the old address refuses for a while', async () => {
      const { old, one } = await moving(200);
      await old.close();
      expect((await send(one.url, path)).status).toBe(502);
      await until(async () => (await send(one.url, path)).status !== 502, 'another answer');
      expect((await send(one.url, path)).headers['x-name']).toBe('new');
    });

    test.each([404, 410])('is asked where it is when the old address answers %i', async (gone) => {
      const { one } = await moving(200);
      status = gone;
      for (const method of ['GET', 'DELETE']) {
        expect((await send(one.url, path, { method })).headers['x-name']).toBe('new');
      }
      expect(asked).toEqual(['old', 'old', 'new', 'new']);
    });

    test('is lost where neither knows the query, and the client gets an error in the protocol', async () => {
      const { old, one } = await moving(404);
      status = 404;
      const lost = `Query ${id} was lost with its cluster "a": it does not know the query any more. Run the query again.`;
      expect(errorOf((await send(one.url, path)).text)).toBe(lost);
      await old.close();
      expect((await send(one.url, path)).status).toBe(502);
      await until(async () => (await send(one.url, path)).status === 200, 'the refusal');
      expect(errorOf((await send(one.url, path)).text)).toBe(lost);
    });

    test('is lost with a cluster that is registered no more', async () => {
      const { old, one } = await moving(200);
      one.table.setInputs({ clusters: [], rules: null });
      await old.close();
      await until(async () => (await send(one.url, path)).status === 200, 'the refusal');
      expect(errorOf((await send(one.url, path)).text)).toContain('connection refused');
    });
  });
});
