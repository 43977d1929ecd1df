import { afterEach, describe, expect, test } from 'vitest';
import {
  type SimulatedEngine,
  type SimulatedEngineOptions,
  startSimulatedEngine,
} from '../../../demo/simulatedEngine.ts';
import type { CheckSettings } from '../../../src/gateway/health/checks.ts';
import type { CheckCredentials, CheckResult } from '../../../src/gateway/health/healthCheck.ts';
import type { MonitorType } from '../../../src/model/monitorType.ts';
import { freePort } from '../../support/freePort.ts';
import { closeAll, closing, startServer, until } from '../../support/gateway.ts';
import { openChecks } from '../../support/healthChecks.ts';

afterEach(closeAll);

const engineOf = async (more: Partial<SimulatedEngineOptions> = {}): Promise<SimulatedEngine> =>
  closing(await startSimulatedEngine({ name: 'a', record: true, ...more }));

const monitor: CheckCredentials = { username: "o'hara", password: '', from: 'backendState' };
const withPassword = { ...monitor, username: 'monitor', password: 's3cret' };
const passwords = { monitor: 's3cret' };

/** One check of a server. */
async function check(
  type: MonitorType,
  url: string,
  {
    credentials = monitor,
    signal = AbortSignal.timeout(20_000),
    path = null,
    ...settings
  }: Partial<CheckSettings> & {
    readonly credentials?: CheckCredentials;
    readonly signal?: AbortSignal;
    readonly path?: string | null;
  } = {},
): Promise<CheckResult> {
  const kind = closing(openChecks(settings)).kinds[type];
  const target = { cluster: 'a', proxyTo: url, path };
  return kind.needsUser ? await kind.check(target, credentials, signal) : await kind.check(target, signal);
}

/** Submits a query that runs for a minute, and has it run where the engine has room. */
async function submit(engine: SimulatedEngine, user: string): Promise<void> {
  const sql = 'SELECT * FROM TABLE(slow(seconds => 60))';
  const answer = await fetch(`${engine.url}/v1/statement`, {
    method: 'POST',
    headers: { 'X-Engine-User': user },
    body: sql,
  });
  let { nextUri } = (await answer.json()) as { nextUri: string };
  for (let gets = 0; gets < 2; gets++) ({ nextUri } = (await (await fetch(nextUri)).json()) as { nextUri: string });
}

const userKinds = ['METRICS', 'JDBC', 'JMX', 'UI_API'] as const;

describe.each(userKinds)('%s', (type) => {
  test('a cluster with queries is HEALTHY and counted', async () => {
    const engine = await engineOf({ state: { workers: 3 } });
    await Promise.all(['ann', 'bob'].map((user) => submit(engine, user)));
    engine.setState({ maxRunning: 2 });
    await Promise.all(['ann', 'ann', 'eve'].map((user) => submit(engine, user)));
    // The check's own query must have room.
    if (type === 'JDBC') engine.setState({ maxRunning: 10 });
    const result = await check(type, engine.url);
    expect(result).toMatchObject({ health: 'HEALTHY', queued: 3, running: 2 });
    expect(result.workers).toBe(type === 'JMX' || type === 'UI_API' ? 3 : undefined);
    const byUser = result.queuedByUser === undefined ? undefined : Object.fromEntries(result.queuedByUser);
    expect(byUser).toEqual(type === 'UI_API' ? { ann: 2, eve: 1 } : undefined);
  });

  test('one that cannot be reached, hangs, answers nonsense or fails is UNHEALTHY, with the reason', async () => {
    const reasons = async (url: string, timeout = 20_000) => {
      const { health: found, reason } = await check(type, url, { signal: AbortSignal.timeout(timeout) });
      expect(found).toBe('UNHEALTHY');
      return reason;
    };
    expect(await reasons(`http://127.0.0.1:${await freePort()}`)).toMatch(/: connection refused$/);
    const engine = await engineOf({ state: { hanging: true } });
    expect(await reasons(engine.url, 200)).toMatch(/: no answer in time$/);
    engine.setState({ hanging: false, failing: 503 });
    expect(await reasons(engine.url)).toMatch(/: status 503$/);
    for (const body of ['<html>', '{}', '[]', 'null']) {
      const nonsense = await startServer((_request, response) => void response.end(body));
      expect(await reasons(nonsense.url)).toMatch(
        /is not a query result|is not an MBean|has no metric|login form refuses/,
      );
    }
  });

  test('a redirect is not followed, to whatever host', async () => {
    const thief = await engineOf({ name: 'thief' });
    const server = await startServer((request, response) => {
      response.writeHead(302, { Location: `${thief.url}${request.url}` }).end();
    });
    const { health: found, reason } = await check(type, server.url, { credentials: withPassword });
    expect(found).toBe('UNHEALTHY');
    expect(reason).toMatch(
      type === 'UI_API' ? /login form refuses/ : /status 302, a redirect, which checks do not follow/,
    );
    expect(thief.requests).toEqual([]);
  });

  test('a refused user is UNHEALTHY; the reason names what to fix, and no password', async () => {
    const engine = await engineOf({ passwords: { monitor: 'another' } });
    const { health: found, reason } = await check(type, engine.url, { credentials: withPassword });
    expect(found).toBe('UNHEALTHY');
    expect(reason).toMatch(/; fix backendState/);
    expect(reason).not.toContain('s3cret');
  });

  test('an answer without end is cut', async () => {
    const server = await startServer((request, response) => {
      request.resume();
      if (request.url === '/ui/login') response.writeHead(303, { 'Set-Cookie': 'a=b', Location: '/ui/' }).end();
      else {
        response.writeHead(200);
        const timer = setInterval(() => response.write('x'.repeat(10_000)), 1);
        response.on('close', () => clearInterval(timer));
      }
    });
    const { reason } = await check(type, server.url, { maxResponse: 50_000 });
    expect(reason).toMatch(/: more than 50000 bytes$/);
  });
});

/** What the engine was asked: method, URL without the SQL's ids, and the headers that say who. */
const asked = (engine: SimulatedEngine) =>
  engine.requests.map(({ method, url, headers }) => {
    const { authorization = null, 'x-forwarded-proto': proto = null, 'x-engine-user': user = null } = headers;
    return [
      method,
      decodeURIComponent(url.split('/queued/')[0]?.split('/executing/')[0] ?? ''),
      authorization,
      user,
      proto,
    ];
  });
const basic = `Basic ${Buffer.from('monitor:s3cret').toString('base64')}`;

test.each<[MonitorType, readonly unknown[]]>([
  [
    'METRICS',
    [
      [
        'GET',
        '/metrics?name[]=engine_execution_name_QueryManager_RunningQueries&name[]=engine_execution_name_QueryManager_QueuedQueries&name[]=engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount',
        basic,
        null,
        'https',
      ],
    ],
  ],
  ['JMX', [['GET', '/v1/jmx/mbean/engine.metadata:name=DiscoveryNodeManager', null, 'monitor', 'https']]],
  ['JDBC', [['POST', '/v1/statement', null, 'monitor', null]]],
  ['UI_API', [['POST', '/ui/login', null, null, 'https']]],
])('%s sends user and password as its kind does over plain HTTP', async (type, first) => {
  const engine = await engineOf({ passwords });
  await check(type, engine.url, { credentials: withPassword, forwardedProto: true });
  expect(asked(engine).slice(0, 1)).toEqual(first);
});

describe('METRICS', () => {
  test.each<[string, Partial<CheckSettings>, RegExp]>([
    [
      'below its minimum',
      { metricMinimumValues: { engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 2 } },
      /ActiveNodeCount is 1, at least 2 is healthy$/,
    ],
    [
      'above its maximum',
      { metricMaximumValues: { engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 0.5 } },
      /ActiveNodeCount is 1, at most 0.5 is healthy$/,
    ],
    ['absent', { metricMinimumValues: { none_such: 0 } }, /the answer has no metric none_such \(monitor/],
  ])('a metric that is %s is UNHEALTHY', async (_what, settings, reason) => {
    const engine = await engineOf();
    const result = await check('METRICS', engine.url, settings);
    expect(result).toMatchObject({ health: 'UNHEALTHY', reason: expect.stringMatching(reason) });
  });

  test('bounds are inclusive; endpoint and names are as configured', async () => {
    const server = await startServer((request, response) => {
      const known = request.url?.startsWith('/own?name%5B%5D=r&name%5B%5D=q&name%5B%5D=m') === true;
      response
        .writeHead(known ? 200 : 404)
        .end('r{a="1"} 7\nr 3\n# TYPE q gauge\nq{a="b c"} 4 1700000000\nm 1.0\n# EOF\n');
    });
    const own = {
      runningQueriesMetricName: 'r',
      queuedQueriesMetricName: 'q',
      metricMinimumValues: { m: 1 },
      metricMaximumValues: { m: 1 },
    };
    const settings = { ...own, metricsEndpoint: '/own' };
    expect(await check('METRICS', server.url, settings)).toMatchObject({ health: 'HEALTHY', running: 3, queued: 4 });
    expect(await check('METRICS', server.url, { ...own, path: '/own' })).toMatchObject({ health: 'HEALTHY' });
    expect(await check('METRICS', server.url, own)).toMatchObject({ health: 'UNHEALTHY' });
  });

  test('502, 503 and 504 are asked again as often as configured', async () => {
    let times = 0;
    const server = await startServer((_request, response) => void response.writeHead(++times === 3 ? 404 : 502).end());
    expect((await check('METRICS', server.url, { retries: 5 })).reason).toMatch(/status 404$/);
    expect(times).toBe(3);
  });
});

describe.each(['JMX', 'UI_API'] as const)('%s', (type) => {
  test('without an active node a cluster is UNHEALTHY, and still counted', async () => {
    const engine = await engineOf({ state: { workers: 0 } });
    expect(await check(type, engine.url)).toMatchObject({ health: 'UNHEALTHY', workers: 0, queued: 0 });
  });
});

describe('JDBC', () => {
  test('has a source of its own, and leaves its own queries out', async () => {
    const engine = await engineOf();
    await submit(engine, monitor.username);
    expect(await check('JDBC', engine.url)).toMatchObject({ health: 'HEALTHY', queued: 0, running: 0 });
    const sent = engine.requests.find(({ body }) => body.includes('runtime.queries'));
    expect(sent?.headers['x-engine-source']).toBe('engine-gateway-health');
    expect(sent?.body).toContain(`"user" <> 'o''hara'`);
  });

  test('a starting cluster is PENDING', async () => {
    const engine = await engineOf({ state: { starting: true } });
    expect(await check('JDBC', engine.url)).toMatchObject({ health: 'PENDING', reason: 'the cluster is starting' });
  });

  test('a query that waits in the queue until the time is over is cancelled and decides nothing', async () => {
    const engine = await engineOf({ state: { maxRunning: 0 } });
    const time = new AbortController();
    const result = check('JDBC', engine.url, { signal: time.signal });
    // It asks again once it has read that the query is queued.
    await until(() => engine.requests.some(({ method }) => method === 'GET'), 'asked for the queued query');
    time.abort();
    expect(await result).toMatchObject({
      health: 'inconclusive',
      reason: expect.stringContaining("waits in the cluster's queue"),
    });
    await until(() => engine.queries.every(({ state }) => state === 'FAILED'), 'cancelled');
    expect(engine.requests.at(-1)?.method).toBe('DELETE');
  });

  test('an error of the query is reported', async () => {
    const results = (error: object) => async () => {
      const server = await startServer((_request, response) => void response.end(JSON.stringify({ id: 'x', error })));
      return await check('JDBC', server.url);
    };
    expect(await results({ errorName: 'ACCESS_DENIED', message: 'Cannot select' })()).toEqual({
      health: 'UNHEALTHY',
      reason: 'the query on system.runtime.queries failed: ACCESS_DENIED: Cannot select',
    });
    expect(await results({ errorName: 'QUERY_QUEUE_FULL', message: 'Too many' })()).toMatchObject({
      health: 'inconclusive',
    });
  });

  test('pages are followed on the own address, whatever host they name, and within limits', async () => {
    const thief = await engineOf({ name: 'thief' });
    let pages = 0;
    const server = await startServer((request, response) => {
      const rows = Array.from({ length: 300 }, () => ['QUEUED', 1]);
      if (request.method === 'GET') pages++;
      response.end(JSON.stringify({ id: 'x', nextUri: `${thief.url}/v1/statement/executing/x/${pages}`, data: rows }));
    });
    const result = await check('JDBC', server.url, { credentials: withPassword });
    expect(result).toMatchObject({ health: 'UNHEALTHY', reason: expect.stringMatching(/: more than 1000 rows$/) });
    expect([pages, thief.requests]).toEqual([3, []]);
  });
});

test('INFO_API reports the version of the engine and the id of its coordinator', async () => {
  const engine = await engineOf();
  const info = (await (await fetch(`${engine.url}/v1/info`)).json()) as Record<string, unknown>;
  const { nodeVersion, coordinatorId } = info as { nodeVersion: { version: string }; coordinatorId: string };
  expect(await check('INFO_API', engine.url)).toMatchObject({ version: nodeVersion.version, coordinatorId });
});

test('a proxyTo that is not a URL, and one that holds a password', async () => {
  expect((await check('INFO_API', 'no url')).reason).toBe('GET /v1/info: proxyTo is not an HTTP URL');
  const port = await freePort();
  const { reason } = await check('INFO_API', `http://joe:hidden@127.0.0.1:${port}`);
  expect(reason).toBe(`GET http://127.0.0.1:${port}/v1/info: connection refused`);
});
