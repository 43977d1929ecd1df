import { fastify } from 'fastify';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { metricsRoutes } from '../../../src/api/metricsRoutes.ts';
import { collectOpenapi } from '../../../src/api/openapi.ts';
import { DataPlaneMetrics, type RequestKind } from '../../../src/gateway/metrics/dataPlaneMetrics.ts';
import { Upstreams } from '../../../src/gateway/upstreams/upstreams.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { verifyingTls } from '../../support/defaults.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const clock = { now: () => 0, monotonic: () => 0 };
const upstreamOptions = {
  connections: 1,
  maxQueued: 1,
  connectTimeout: 1,
  bodyTimeout: 1,
  idleTimeout: 1,
  maxHeaderSize: 1024,
  tls: verifyingTls,
};

/** Requests of each kind; times on the bounds of buckets, beside them, none at all and beyond the last one. */
const requests: [kind: RequestKind, method: string, status: number, seconds: number][] = [
  ['submission', 'POST', 200, 0],
  ['submission', 'POST', 200, 0.001],
  ['follow_up', 'GET', 200, 0.0010000001],
  ['submission', 'POST', 503, 0.0025],
  ['submission', 'POST', 502, 0.1],
  ['submission', 'POST', 0, 0.2],
  ['follow_up', 'DELETE', 204, 29.999],
  ['follow_up', 'GET', 200, 30],
  ['other', 'BREW', 404, 30.5],
  ['other', 'GET', 301, 1e6],
  ['other', 'PROPFIND', 405, 0.3],
  ['query', 'HEAD', 200, 0.5],
];

function makeMetrics() {
  const registry = new Registry();
  const table = new RoutingTableHolder();
  table.setInputs({ clusters: [clusterAt('a', 'http://a:8080')] });
  const metrics = new DataPlaneMetrics(registry, table, new Upstreams(upstreamOptions, clock));
  const exposition = async (accept: string) => {
    const app = fastify();
    await collectOpenapi(app, { product: 'Engine', version: '1', schemes: {} });
    await app.register(metricsRoutes, { metrics: registry, table, version: '1' });
    const { body } = await app.inject({ url: '/metrics', headers: { accept } });
    await app.close();
    return body;
  };
  return { registry, metrics, exposition };
}

test('what is counted shows at each scrape, in both formats', async () => {
  const { metrics, exposition } = makeMetrics();
  const plain = () => exposition('text/plain');
  expect(await plain()).toMatchSnapshot('before the first request');
  for (const [kind, method, status, seconds] of requests) metrics.request(kind, method, status, seconds, 'a');
  metrics.submission();
  metrics.submission();
  metrics.lookup('memory');
  metrics.lookup('coordinator');
  metrics.refusal('no_cluster');
  metrics.retry('a');
  metrics.clusterError('a', 'reset');
  const first = await plain();
  expect(first).toMatchSnapshot('requests');
  expect(await plain()).toBe(first);
  for (const [kind, method, status, seconds] of requests.slice(0, 3))
    metrics.request(kind, method, status, seconds, 'a');
  metrics.request('ui', 'PUT', 200, 0.7, 'a');
  metrics.submission();
  expect(await exposition('application/openmetrics-text')).toMatchSnapshot('more requests, OpenMetrics');
});

test('a counter read by itself has what was counted', async () => {
  const { registry, metrics } = makeMetrics();
  for (const [kind, method, status, seconds] of requests) metrics.request(kind, method, status, seconds, 'a');
  const total = async (name: string) =>
    (await registry.getSingleMetric(name)!.get()).values.reduce((sum, { value }) => sum + value, 0);
  expect(await total('engine_gateway_requests_total')).toBe(requests.length);
  expect(await total('engine_gateway_requests_total')).toBe(requests.length);
});

test('a registry that is reset reports what came after', async () => {
  const { registry, metrics } = makeMetrics();
  const duration = () => registry.getSingleMetricAsString('engine_gateway_request_duration_seconds');
  metrics.request('submission', 'POST', 200, 0.3, null);
  registry.resetMetrics();
  expect(await duration()).not.toContain('submission');
  metrics.request('follow_up', 'GET', 200, 0.3, null);
  expect(await duration()).toContain('_count{kind="follow_up"} 1');
  expect(await duration()).not.toContain('submission');
});
