import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import type { RuleDecision, RuleSet } from '../../../src/rules/decision.ts';
import { unwatchedOutcomes } from '../../support/defaults.ts';
import { freePort } from '../../support/freePort.ts';
import { closeAll, closing, clusterAt, startGateway, startServer } from '../../support/gateway.ts';
import { send, valuesOf } from '../../support/rawHttp.ts';
import { decided } from '../../support/ruleDecision.ts';
import { runQuery, submit } from '../../support/statementClient.ts';

afterEach(closeAll);

const id = '20261121_015745_00000_kvhrm';
const engine = async (name: string, more = {}) =>
  closing(await startSimulatedEngine({ name, record: true, queuedPolls: 0, ...more }));

const fixedRules = (decision: Partial<RuleDecision>): RuleSet => ({
  needsAnalysis: false,
  decide: () => decided(decision),
});

const first = () => 0;

test('a submission that no cluster can take is kept with the reason, under the id that its client sees', async () => {
  const refused: unknown[] = [];
  const outcomes = { ...unwatchedOutcomes, reject: (query: unknown) => void refused.push(query) };
  const gateway = await startGateway({ clusters: [], outcomes });
  const responses = [];
  for (let turn = 0; turn < 2; turn++) responses.push(await submit(gateway.url, 'SELECT 1', { user: 'ann' }));
  expect(refused).toMatchObject(
    responses.map(({ id: queryId, error }) => ({
      ...{ queryId, state: 'REFUSED', queryText: 'SELECT 1', facts: { user: 'ann', cluster: null } },
      error: { name: error?.errorName, code: error?.errorCode, message: error?.message },
    })),
  );
  expect(responses[0]?.id).toMatch(/^\d{8}_\d{6}_\d{5}_refused_[a-z0-9]{8}$/);
  expect(responses[0]?.id).not.toBe(responses[1]?.id);
});

test('a first answer that is the last one ends the query with what it says', async () => {
  const seen: unknown[] = [];
  const outcomes = {
    ...unwatchedOutcomes,
    begin: (queryId: string, { user }: { user: string | null }) => void seen.push(['begins', queryId, user]),
    end: (queryId: string, cluster: string, _bytes: number, page: unknown) => void seen.push([queryId, cluster, page]),
  };
  const body = JSON.stringify({
    id,
    infoUri: 'http://e/ui',
    stats: { elapsedTimeMillis: 5, cpuTimeMillis: 4 },
    data: [],
  });
  for (const encoding of ['identity', 'gzip']) {
    const { url } = await startServer((_request, response) => {
      response.setHeader('content-type', 'application/json');
      if (encoding === 'gzip') response.setHeader('content-encoding', 'gzip');
      response.end(encoding === 'gzip' ? gzipSync(body) : body);
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', url)], outcomes });
    await submit(gateway.url, 'SELECT 1', { user: 'ann' });
    const page = { elapsedMillis: 5, cpuMillis: 4, error: null };
    await expect
      .poll(() => seen.splice(0))
      .toMatchObject([
        ['begins', id, 'ann'],
        [id, 'a', page],
      ]);
  }
});

describe('where a query goes', () => {
  test('the group of the header, with history, trace and one line in the log', async () => {
    const [a, b] = [await engine('a'), await engine('b')];
    const gateway = await startGateway({
      clusters: [
        clusterAt('a', a.url),
        clusterAt('b', b.url, { routingGroup: 'etl', externalUrl: 'http://b.example' }),
      ],
    });
    const outcome = await runQuery(gateway.url, 'SELECT 1', {
      user: 'alice',
      headers: { 'X-Engine-Routing-Group': 'etl', 'X-Engine-Source': 'tests' },
    });
    expect(outcome.rows).toEqual([[1]]);
    expect(outcome.id).toMatch(new RegExp(`_${b.suffix}$`));
    expect(outcome.uris.every((uri) => uri.startsWith(gateway.url))).toBe(true);
    expect(a.requests).toEqual([]);
    expect(gateway.records).toEqual([
      {
        queryId: outcome.id,
        queryText: 'SELECT 1',
        user: 'alice',
        source: 'tests',
        backendUrl: b.url,
        created: expect.any(Number),
        routingGroup: 'etl',
        externalUrl: 'http://b.example',
        cluster: 'b',
        rule: null,
        gatewayQueuedMillis: null,
        statement: expect.objectContaining({
          columns: expect.objectContaining({ digest: 'f8ae09aedd50f21d', exactDigest: 'ed6d245dd8c3a2f1' }),
        }),
        decision: expect.stringMatching(
          /^\{"group":"etl","decidedBy":"header","cluster":"b","strategy":"only","times":\{"receivedAt":\d+,"analysed":\d+,"decided":\d+,"submitted":\d+\},"request":\{"text":8,"headers":\{"x-engine-user":"alice","x-engine-routing-group":"etl"\}\},"candidates":\[\{"cluster":"b"\}\]\}$/,
        ),
      },
    ]);
    const lines = gateway.log.filter((line) => line.msg === 'query');
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      queryId: outcome.id,
      group: 'etl',
      cluster: 'b',
      user: 'alice',
      source: 'tests',
      status: 200,
      queryDigest: 'f8ae09aedd50f21d',
    });
    expect(JSON.stringify(gateway.log)).not.toContain('SELECT 1');
    expect(gateway.observations).toMatchObject([{ cluster: 'b', honoured: true }]);
  });

  test('an unknown or unhealthy group falls back to the default group; the record keeps the group asked for', async () => {
    const a = await engine('a');
    const gateway = await startGateway({ clusters: [clusterAt('a', a.url)] });
    await submit(gateway.url, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': 'nowhere' } });
    expect(gateway.records[0]).toMatchObject({ routingGroup: 'nowhere', cluster: 'a' });
    expect(JSON.parse(gateway.records[0]!.decision!)).toMatchObject({ fallback: true });
  });

  test('both clusters of a group get queries', async () => {
    const [a, b] = [await engine('a'), await engine('b')];
    const gateway = await startGateway({ clusters: [clusterAt('a', a.url), clusterAt('b', b.url)] });
    for (let count = 0; count < 40; count++) await submit(gateway.url, 'SELECT 1');
    expect(a.queries.length).toBeGreaterThan(5);
    expect(b.queries.length).toBeGreaterThan(5);
  });

  test('a rule sets the group, pins a cluster, denies, or fails', async () => {
    const [a, b] = [await engine('a'), await engine('b')];
    const clusters = [clusterAt('a', a.url), clusterAt('b', b.url, { routingGroup: 'etl' })];
    const gateway = await startGateway({ clusters, settings: { explainHeader: true } });
    gateway.table.setInputs({ rules: fixedRules({ routingGroup: 'etl', rule: 'to-etl' }) });
    const ruled = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: ['X-Engine-User', 'alice'],
    });
    expect(ruled.headers['x-engine-routing-decision']).toBe('cluster=b; group=etl; by=rule; rule=to-etl');
    gateway.table.setInputs({ rules: fixedRules({ cluster: 'b', rule: 'pin' }) });
    await submit(gateway.url, 'SELECT 1');
    expect(b.queries).toHaveLength(2);
    gateway.table.setInputs({ rules: fixedRules({ denied: { rule: 'no', message: 'Not on Sundays' } }) });
    const denied = await submit(gateway.url, 'SELECT 1');
    expect(denied.error).toMatchObject({ message: 'Not on Sundays', errorName: 'PERMISSION_DENIED' });
    expect(denied.nextUri).toBeUndefined();
    gateway.table.setInputs({ rules: fixedRules({ rejected: { rule: 'bad', message: 'Rule "bad" failed' } }) });
    expect((await submit(gateway.url, 'SELECT 1')).error).toMatchObject({ message: 'Rule "bad" failed' });
    expect(b.queries).toHaveLength(2);
    expect(a.queries).toHaveLength(0);
  });

  test.each(['/v1/statement/', '/v1/statement;x=1', '/v1;a=b/statement/'])(
    'a POST on %s is a submission',
    async (path) => {
      const gateway = await startGateway({
        clusters: [],
        rules: fixedRules({ denied: { rule: 'no', message: 'No' } }),
      });
      const answer = await send(gateway.url, path, { method: 'POST', body: 'SELECT 1' });
      expect(path.startsWith('/v1/statement') ? JSON.parse(answer.text).error.message : answer.status).toBe(
        path.startsWith('/v1/statement') ? 'No' : 418,
      );
    },
  );
});

describe('refusals', () => {
  test('name the group and why each cluster was not taken, in the protocol', async () => {
    const refusing = async (statementErrors: 'protocol' | 'http') => {
      const clusters = [
        clusterAt('a', 'http://a:1', { routingGroup: 'etl', active: false }),
        clusterAt('b', 'http://b:1', { routingGroup: 'etl' }),
      ];
      const started = await startGateway({ clusters, healthy: false, settings: { statementErrors } });
      started.table.setHealth('b', 'http://b:1', { ...neverChecked, status: 'UNHEALTHY', reason: 'status 500' });
      return started;
    };
    const gateway = await refusing('protocol');
    const answer = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: ['X-Engine-Routing-Group', 'etl'],
    });
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/json']);
    const results = JSON.parse(answer.text);
    expect(results.error).toMatchObject({
      message:
        'No healthy cluster in routing group "etl" nor in the default routing group "adhoc": a is inactive; b is UNHEALTHY (status 500)',
      errorName: 'NO_NODES_AVAILABLE',
      errorType: 'INTERNAL_ERROR',
    });
    expect(results.nextUri).toBeUndefined();
    expect(results.stats.state).toBe('FAILED');
    const plain = await refusing('http');
    const http = await send(plain.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect([http.status, http.headers['content-type']]).toEqual([503, 'text/plain; charset=utf-8']);
    const metrics = await gateway.registry.metrics();
    expect(metrics).toContain('engine_gateway_refusals_total{reason="no_cluster"} 1');
    expect(metrics).toContain('engine_gateway_requests_total{kind="submission",method="POST",status="2xx"} 1');
    expect(await plain.registry.metrics()).toContain(
      'engine_gateway_requests_total{kind="submission",method="POST",status="5xx"} 1',
    );
    expect(gateway.log.filter((line) => line.msg === 'query').map((line) => line.refused)).toEqual(['no_cluster']);
  });

  test('while a cluster is PENDING: 503 with Retry-After', async () => {
    const gateway = await startGateway({ clusters: [clusterAt('a', 'http://a:1')], healthy: false });
    const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
  });

  test('a rule with onUnavailable: reject does not fall back', async () => {
    const a = await engine('a');
    const gateway = await startGateway({
      clusters: [clusterAt('a', a.url)],
      rules: fixedRules({ routingGroup: 'etl', rule: 'strict', onUnavailable: 'reject' }),
    });
    const { error } = await submit(gateway.url, 'SELECT 1');
    expect(error!.message).toBe(
      'No healthy cluster in routing group "etl" (chosen by rule "strict"): no cluster is registered there',
    );
    expect(a.queries).toEqual([]);
  });

  test.each<['fallback' | 'reject', boolean, string]>([
    ['fallback', true, 'pinned'],
    ['fallback', false, 'default'],
    ['reject', true, 'pinned'],
    ['reject', false, 'Cluster "b" cannot take the query (chosen by rule "pin"): b is UNHEALTHY (gone)'],
  ])('a rule that pins a cluster, with onUnavailable: %s, healthy: %s', async (onUnavailable, healthy, expected) => {
    const [a, b] = [await engine('a'), await engine('b')];
    const gateway = await startGateway({
      clusters: [clusterAt('a', a.url), clusterAt('b', b.url, { routingGroup: 'etl' })],
      rules: fixedRules({ cluster: 'b', rule: 'pin', onUnavailable }),
    });
    if (!healthy) gateway.table.setHealth('b', b.url, { ...neverChecked, status: 'UNHEALTHY', reason: 'gone' });
    const { error } = await submit(gateway.url, 'SELECT 1');
    const went = b.queries.length > 0 ? 'pinned' : a.queries.length > 0 ? 'default' : error?.message;
    expect(went).toBe(expected);
  });
});

describe('repeating a submission', () => {
  /** A cluster that reads a request and then runs a given step on the connection. */
  const breaking = async (how: (socket: import('node:net').Socket) => void) => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => how(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing({ close: () => new Promise((resolve) => server.close(resolve)) });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  };

  test.each([
    ['a refused connection', async () => `http://127.0.0.1:${await freePort()}`],
    ['a host that is not there', async () => 'http://no-such-host.invalid:8080'],
    ['a reset before any answer', () => breaking((socket) => socket.resetAndDestroy())],
    ['a close before any answer', () => breaking((socket) => socket.end())],
    [
      'a TLS failure',
      async () => (await breaking((socket) => socket.end('this is not TLS\r\n'))).replace('http:', 'https:'),
    ],
  ])('after %s', async (_what, makeUrl) => {
    const b = await engine('b');
    const gateway = await startGateway({
      clusters: [clusterAt('a', await makeUrl()), clusterAt('b', b.url)],
      random: first,
    });
    const results = await submit(gateway.url, 'SELECT 1');
    expect(results.id).toMatch(new RegExp(`_${b.suffix}$`));
    expect(b.queries.map((query) => query.text)).toEqual(['SELECT 1']);
    expect(gateway.records[0]!.cluster).toBe('b');
    expect(JSON.parse(gateway.records[0]!.decision!).attempts).toMatchObject([{ cluster: 'a' }]);
    expect(await gateway.registry.metrics()).toContain('engine_gateway_submission_retries_total{cluster="a"} 1');
  });

  test('not once the request was sent, with untilSent', async () => {
    const b = await engine('b');
    const gateway = await startGateway({
      clusters: [clusterAt('a', await breaking((socket) => socket.resetAndDestroy())), clusterAt('b', b.url)],
      random: first,
      settings: { retrySubmissions: 'untilSent' },
    });
    expect((await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' })).status).toBe(502);
    expect(b.queries).toEqual([]);
  });

  test('not once a byte of an answer came', async () => {
    const b = await engine('b');
    const half = await breaking((socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Le'));
    const gateway = await startGateway({ clusters: [clusterAt('a', half), clusterAt('b', b.url)], random: first });
    const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect([answer.status, answer.text]).toEqual([502, 'Failed reading response from remote Engine server']);
    expect(b.queries).toEqual([]);
  });

  test('not after an error that the cluster answered, and not when it is only slow', async () => {
    const b = await engine('b');
    const a = await startServer((_request, response) => void response.writeHead(503).end('busy'));
    const slow = await startServer(() => undefined);
    const gateway = await startGateway({
      clusters: [clusterAt('a', a.url), clusterAt('b', b.url), clusterAt('slow', slow.url, { routingGroup: 'slow' })],
      random: first,
      settings: { asyncTimeout: 1_500 },
    });
    expect((await send(gateway.url, '/v1/statement', { method: 'POST', body: 'x' })).status).toBe(503);
    const late = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'x',
      headers: ['X-Engine-Routing-Group', 'slow'],
    });
    expect(late.status).toBe(502);
    expect(b.queries).toEqual([]);
  });

  test('when every cluster refuses, the refusal says so', async () => {
    const gateway = await startGateway({ clusters: [clusterAt('a', `http://127.0.0.1:${await freePort()}`)] });
    const { error } = await submit(gateway.url, 'SELECT 1');
    expect(error!.message).toBe('No healthy cluster in routing group "adhoc": a failed (connection refused)');
  });

  test('a body beyond the buffer streams on', async () => {
    const a = await engine('a');
    const gateway = await startGateway({ clusters: [clusterAt('a', a.url)] });
    const sql = `SELECT 1 -- ${'x'.repeat(3_000_000)}`;
    await submit(gateway.url, sql);
    expect(a.queries[0]!.text).toBe(sql);
    expect(gateway.records[0]!.queryText.length).toBeGreaterThan(1_000_000);
  });
});

describe('the id in the answer', () => {
  const answering = async (headers: Record<string, string>, parts: readonly (string | Buffer)[]) =>
    startServer((request, response) => {
      request.resume();
      response.writeHead(200, { 'content-type': 'application/json', ...headers });
      const next = (index: number) => {
        if (index === parts.length) response.end();
        else response.write(parts[index]!, () => setTimeout(next, 5, index + 1));
      };
      next(0);
    });
  const json = JSON.stringify({ id, stats: { state: 'QUEUED' }, nextUri: 'http://elsewhere:1/x' });

  test.each<[string, Record<string, string>, readonly (string | Buffer)[], string | undefined]>([
    ['first member', {}, [json], id],
    ['byte by byte', {}, json.split(''), id],
    [
      'not the first member, with spaces',
      {},
      ['{ "stats" : {"id":"no","a":[1,{"id":"no"}]},\n "x":null, "id" : "', `${id}" }`],
      id,
    ],
    ['gzip without being asked', { 'content-encoding': 'gzip' }, [gzipSync(json)], id],
    [
      'gzip in two parts',
      { 'content-encoding': 'gzip' },
      [gzipSync(json).subarray(0, 20), gzipSync(json).subarray(20)],
      id,
    ],
    ['brotli', { 'content-encoding': 'br' }, [brotliCompressSync(json)], id],
    ['no id', {}, ['{"error":{"id":"no"}}'], undefined],
    ['id that is no text', {}, ['{"id":7}'], undefined],
    ['no JSON', { 'content-type': 'text/html' }, ['<html>'], undefined],
    ['nothing', {}, [], undefined],
  ])('%s', async (_what, headers, parts, expected) => {
    const a = await answering(headers, parts);
    const gateway = await startGateway({ clusters: [clusterAt('a', a.url)] });
    const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect(answer.status).toBe(200);
    expect(answer.body.equals(Buffer.concat(parts.map((part) => Buffer.from(part))))).toBe(true);
    expect(gateway.records.map((record) => record.queryId)).toEqual(expected === undefined ? [] : [expected]);
  });

  test('engines are asked for it uncompressed', async () => {
    const a = await engine('a');
    const gateway = await startGateway({ clusters: [clusterAt('a', a.url)] });
    await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: ['Accept-Encoding', 'gzip'],
    });
    expect(valuesOf(a.requests[0]!.rawHeaders, 'accept-encoding')).toEqual([]);
  });

  test('a cluster that ignores or refuses forwarded headers is reported', async () => {
    const ignoring = await answering({}, [json]);
    const refusing = await engine('b', { processForwarded: false });
    const gateway = await startGateway({
      clusters: [clusterAt('a', ignoring.url), clusterAt('b', refusing.url, { routingGroup: 'b' })],
    });
    await send(gateway.url, '/v1/statement', { method: 'POST', body: 'x' });
    const refused = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'x',
      headers: ['X-Engine-Routing-Group', 'b'],
    });
    expect(refused.status).toBe(406);
    expect(gateway.observations).toMatchObject([
      { cluster: 'a', honoured: false, message: expect.stringContaining('point to http://elsewhere:1') },
      { cluster: 'b', honoured: false, message: expect.stringContaining('406') },
    ]);
  });

  test('the cookie naming the cluster comes with includeClusterHostInResponse', async () => {
    const a = await engine('a');
    const gateway = await startGateway({
      clusters: [clusterAt('a', a.url)],
      settings: { includeClusterHostInResponse: true },
    });
    const answer = await send(gateway.url, '/v1/statement', { method: 'POST', body: 'SELECT 1' });
    expect(answer.headers['set-cookie']).toEqual(['engineClusterHost=127.0.0.1']);
  });
});
