import type { IncomingMessage } from 'node:http';
import { Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import type { CredentialSources, CredentialsRefusal } from '../../../src/gateway/health/checkCredentials.ts';
import { HealthMonitors } from '../../../src/gateway/health/healthMonitors.ts';
import type { HealthCheck } from '../../../src/kinds/engineCluster/spec.ts';
import { systemClock } from '../../../src/model/clock.ts';
import type { MonitorType } from '../../../src/model/monitorType.ts';
import type { RoutableCluster } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { capturingLogger, closeAll, closing, clusterAt, startServer, until } from '../../support/gateway.ts';
import { defaultMonitorSettings, openChecks } from '../../support/healthChecks.ts';

afterEach(closeAll);

const password = 'global-s3cret';

/** A server that keeps what it is sent, and answers with a redirect to another one, where a target is given. */
async function hostileServer(redirectTo?: string) {
  const received: string[] = [];
  const server = closing(
    await startServer(async (request: IncomingMessage, response) => {
      const body = (await Array.fromAsync(request)).join('');
      received.push(JSON.stringify([request.url, request.rawHeaders, body]));
      if (redirectTo !== undefined) response.writeHead(307, { location: `${redirectTo}${request.url}` });
      response.end('{}');
    }),
  );
  return { url: server.url, received };
}

/** Monitors of clusters that tenants registered, after the first check of each. */
async function checked(
  clusters: readonly RoutableCluster[],
  type: MonitorType,
  more: Partial<CredentialSources> & { readonly allowedHosts?: readonly string[] } = {},
) {
  const table = new RoutingTableHolder();
  const log: Record<string, unknown>[] = [];
  const reported = new Map<string, CredentialsRefusal | null>();
  const monitors = new HealthMonitors(
    {
      table,
      kinds: closing(openChecks()).kinds,
      credentials: {
        configured: { username: 'monitor', password, allowedHosts: more.allowedHosts ?? null },
        trustsResources: false,
        ofCluster: async () => null,
        report: (cluster, refusal) => reported.set(cluster, refusal),
        ...more,
      },
      logger: capturingLogger(log),
      registry: new Registry(),
      clock: systemClock,
      random: () => 0.5,
    },
    { ...defaultMonitorSettings, type, interval: 60_000 },
  );
  table.setInputs({ clusters });
  monitors.start();
  closing({ close: async () => monitors.stop() });
  await until(() => [...table.current.clusters.values()].every(({ health }) => health.checkedAt !== null), 'checks');
  return { health: (name: string) => table.current.clusters.get(name)?.health, reported, log, table };
}

test.each<[MonitorType, HealthCheck | null]>([
  ['INFO_API', { type: 'METRICS' }],
  ['INFO_API', { type: 'UI_API' }],
  ['INFO_API', { type: 'JDBC' }],
  ['INFO_API', { type: 'JMX' }],
  ['METRICS', null],
  ['METRICS', { type: 'UI_API' }],
  ['METRICS', { path: '/steal' }],
  ['UI_API', null],
  ['JDBC', { type: 'METRICS' }],
])('a tenant whose cluster is checked by %s and asks for %j gets no password over HTTP', async (type, healthCheck) => {
  const { url, received } = await hostileServer();
  const { health, reported, log } = await checked([clusterAt('a', url, { healthCheck })], type);
  expect(received).toEqual([]);
  expect(health('a')).toMatchObject({ status: 'UNHEALTHY', reason: expect.stringContaining('backendState') });
  expect(reported.get('a')).toMatchObject({ message: expect.stringContaining('backendState.allowedHosts') });
  expect(JSON.stringify([health('a'), [...reported], log])).not.toContain(password);
});

test.each<MonitorType>(['JDBC', 'JMX'])('%s over HTTP sends the name alone', async (type) => {
  const { url, received } = await hostileServer();
  await checked([clusterAt('a', url)], type);
  expect(received.join()).toContain('"monitor"');
  expect(received.join()).not.toMatch(/authorization/i);
  expect(received.join()).not.toContain(password);
});

test.each<MonitorType>(['METRICS', 'JDBC', 'JMX', 'UI_API'])(
  '%s: a redirect of an allowed host takes the credentials nowhere else',
  async (type) => {
    const thief = await hostileServer();
    const { url, received } = await hostileServer(thief.url);
    const { health } = await checked([clusterAt('a', url)], type, { allowedHosts: ['127.0.0.1'] });
    expect(received.length).toBeGreaterThan(0);
    expect(thief.received).toEqual([]);
    expect(health('a')?.status).toBe('UNHEALTHY');
  },
);

test('a listed host gets them, the cluster beside it does not, and a cluster that is fine again reports so', async () => {
  const [good, bad] = [await hostileServer(), await hostileServer()];
  const allowedHosts = [new URL(good.url).host];
  const { reported, table } = await checked([clusterAt('a', good.url), clusterAt('b', bad.url)], 'METRICS', {
    allowedHosts,
  });
  expect(good.received.join()).toContain(Buffer.from(`monitor:${password}`).toString('base64'));
  expect(bad.received).toEqual([]);
  expect(reported.get('a')).toBeNull();
  expect(reported.get('b')).toMatchObject({ reason: 'HostNotAllowed' });
  table.setInputs({ clusters: [clusterAt('b', bad.url, { healthCheck: { type: 'NOOP' } })] });
  await until(() => reported.get('b') === null, 'the report that nothing is wrong');
});
