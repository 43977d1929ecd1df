import { afterEach, expect, test } from 'vitest';
import { neverChecked, type RoutableCluster } from '../../../src/routing/routingTable.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { clusterAt } from '../../support/routableCluster.ts';

let api: ApiServer;
afterEach(() => api.close());

const cluster = (name: string, more: Partial<RoutableCluster> = {}): RoutableCluster =>
  clusterAt(name, `http://${name}:1`, { externalUrl: `https://${name}`, ...more });

test('the public reads show clusters and their state', async () => {
  api = await startApi();
  api.table.setInputs({ clusters: [cluster('b'), cluster('a', { active: false, origin: 'row' })] });
  const all = await api.call('GET', '/api/public/backends');
  expect(all.json().map((shown: { name: string }) => shown.name)).toEqual(['a', 'b']);
  expect((await api.call('GET', '/api/public/backends/a')).json()).toEqual({
    name: 'a',
    proxyTo: 'http://a:1',
    active: false,
    routingGroup: 'adhoc',
    externalUrl: 'https://a',
  });

  const unchecked = { clusterId: 'b', runningQueryCount: 0, queuedQueryCount: 0, numWorkerNodes: 0 };
  expect((await api.call('GET', '/api/public/backends/b/state')).json()).toEqual({
    ...unchecked,
    engineStatus: 'PENDING',
  });

  const verdict = { ...neverChecked, status: 'HEALTHY', checkedAt: 1 } as const;
  const address = { proxyTo: 'http://b:1', externalUrl: 'https://b', routingGroup: 'adhoc' };
  api.table.setHealth('b', 'http://b:1', verdict);
  expect((await api.call('GET', '/api/public/backends/b/state')).json()).toEqual({
    ...unchecked,
    ...address,
    engineStatus: 'HEALTHY',
  });
  api.table.setHealth('b', 'http://b:1', {
    ...verdict,
    running: 3,
    queued: 2,
    workers: 5,
    queuedByUser: new Map([['ann', 2]]),
  });
  expect((await api.call('GET', '/api/public/backends/b/state')).json()).toEqual({
    clusterId: 'b',
    runningQueryCount: 3,
    queuedQueryCount: 2,
    numWorkerNodes: 5,
    engineStatus: 'HEALTHY',
    ...address,
  });
});

test('names of another product', async () => {
  api = await startApi({ product: 'Trino' });
  api.table.setInputs({ clusters: [cluster('a')] });
  expect((await api.call('GET', '/api/public/backends/a/state')).json().trinoStatus).toBe('PENDING');
  expect((await api.call('GET', '/trino-gateway/livez')).text).toBe('ok');
  const other = await api.call('GET', '/engine-gateway/livez');
  expect([other.status, other.headers.location]).toEqual([308, '/trino-gateway/livez']);
  api.registry.pending = true;
  const response = await api.call('POST', '/gateway/backend/deactivate/a');
  expect(response.headers['x-trino-gateway-pending']).toBe('database');
});

test.each(['', '/engine-gateway'])('probes under %j', async (prefix) => {
  api = await startApi();
  expect(await api.call('GET', `${prefix}/livez`)).toMatchObject({ status: 200, text: 'ok' });
  expect(await api.call('GET', `${prefix}/readyz`)).toMatchObject({ status: 200, text: 'ok' });

  api.readiness = {
    notReadyBecause: () => 'no snapshot is loaded',
    components: async () => [
      { name: 'database', ok: false, message: 'away for 12 s: connection refused' },
      { name: 'history buffer', ok: true, message: '3 records wait' },
    ],
  };
  api.table.setInputs({ clusters: [cluster('a'), cluster('b', { active: false })] });
  const unready = await api.call('GET', `${prefix}/readyz`);
  expect([unready.status, unready.text]).toEqual([503, 'Engine Gateway is still initializing']);
  expect((await api.call('GET', `${prefix}/livez`)).status).toBe(200);
  const verbose = await api.call('GET', `${prefix}/readyz?verbose`);
  expect([verbose.status, verbose.text]).toEqual([
    503,
    [
      '[-] database: away for 12 s: connection refused',
      '[+] history buffer: 3 records wait',
      '[-] authentication: open: every call passes with all roles; configure "authentication" (docs/authentication.md) to change that',
      '[-] clusters: 0 of 1 active clusters healthy; a is PENDING (not checked yet)',
      'not ready: no snapshot is loaded\n',
    ].join('\n'),
  ]);
});

test('metrics show the clusters as the table has them now', async () => {
  api = await startApi();
  api.table.setInputs({ clusters: [cluster('a'), cluster('b', { active: false })] });
  api.table.setHealth('a', 'http://a:1', { ...neverChecked, status: 'UNHEALTHY', running: 4, queued: 1, workers: 2 });
  const filter = ['status', 'active', 'queries', 'workers'].map((name) => `name[]=engine_gateway_cluster_${name}`);
  const samples = async () =>
    (await api.call('GET', `/metrics?${filter.join('&')}`)).text.split('\n').filter((line) => /^[^#]/.test(line));
  expect(await samples()).toEqual([
    'engine_gateway_cluster_status{cluster="a",routing_group="adhoc",status="PENDING"} 0',
    'engine_gateway_cluster_status{cluster="a",routing_group="adhoc",status="HEALTHY"} 0',
    'engine_gateway_cluster_status{cluster="a",routing_group="adhoc",status="UNHEALTHY"} 1',
    'engine_gateway_cluster_status{cluster="b",routing_group="adhoc",status="PENDING"} 1',
    'engine_gateway_cluster_status{cluster="b",routing_group="adhoc",status="HEALTHY"} 0',
    'engine_gateway_cluster_status{cluster="b",routing_group="adhoc",status="UNHEALTHY"} 0',
    'engine_gateway_cluster_active{cluster="a",routing_group="adhoc"} 1',
    'engine_gateway_cluster_active{cluster="b",routing_group="adhoc"} 0',
    'engine_gateway_cluster_queries{cluster="a",state="queued"} 1',
    'engine_gateway_cluster_queries{cluster="a",state="running"} 4',
    'engine_gateway_cluster_workers{cluster="a"} 2',
  ]);
  api.table.setInputs({ clusters: [] });
  expect(await samples()).toEqual([]);
});

test('metrics come as Prometheus text or OpenMetrics, and counters keep their name in both', async () => {
  api = await startApi();
  const ask = (accept?: string) =>
    api.call(
      'GET',
      '/metrics?name[]=engine_gateway_api_requests_total',
      accept === undefined ? {} : { headers: { accept } },
    );
  const sample = /^engine_gateway_api_requests_total\{method="GET",route="\/openapi.json",status="200"\} 1$/m;
  const open = await ask('application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1');
  expect(open.headers['content-type']).toBe('application/openmetrics-text; version=1.0.0; charset=utf-8');
  expect(open.text).toMatch(sample);
  expect(open.text).toContain('# TYPE engine_gateway_api_requests counter\n');
  expect(open.text.endsWith('\n# EOF\n')).toBe(true);
  for (const accept of [undefined, 'text/plain', 'application/openmetrics-text;q=0, */*']) {
    const plain = await ask(accept);
    expect(plain.headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(plain.text).toContain('# TYPE engine_gateway_api_requests_total counter\n');
    expect(plain.text).toMatch(sample);
    expect(plain.text).not.toContain('process_cpu');
  }
  expect((await api.call('GET', '/metrics')).text).toContain('process_cpu_seconds_total');
  expect((await api.call('GET', '/metrics?name[]=none')).text.trim()).toBe('');
});

test('calls are counted by route, unknown paths as one', async () => {
  api = await startApi();
  for (const path of ['/api/public/backends/a', '/api/public/backends/b', '/x', '/y']) await api.call('GET', path);
  const { text } = await api.call('GET', '/metrics?name[]=engine_gateway_api_requests_total');
  expect(text).toContain('route="/api/public/backends/:name",status="404"} 2');
  expect(text).toContain('route="none",status="404"} 2');
});

test('the index page links what there is, and takes nothing from elsewhere', async () => {
  api = await startApi();
  const page = await api.call('GET', '/');
  expect(page.headers['content-type']).toBe('text/html; charset=utf-8');
  const links = [...page.text.matchAll(/href="([^"]+)"/g)].map(([, path]) => path ?? '');
  expect(links).toEqual(['/gateway/backend/all', '/readyz?verbose', '/metrics', '/openapi.json']);
  for (const link of links) expect((await api.call('GET', link)).status).toBe(200);
  expect(page.text).not.toMatch(/<script|https?:\/\//);
});
