import { Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { routingReadinessOf } from '../../../src/gateway/health/clusterChanges.ts';
import { HealthMonitors, type MonitorSettings } from '../../../src/gateway/health/healthMonitors.ts';
import { systemClock } from '../../../src/model/clock.ts';
import type { RoutableCluster } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/routingTable.ts';
import { freePort } from '../../support/freePort.ts';
import { capturingLogger, closeAll, closing, clusterAt, startServer, until } from '../../support/gateway.ts';
import { defaultMonitorSettings, openChecks } from '../../support/healthChecks.ts';

afterEach(closeAll);

function monitor(clusters: readonly RoutableCluster[], settings: Partial<MonitorSettings> = {}, retries = 0) {
  const table = new RoutingTableHolder();
  const log: Record<string, unknown>[] = [];
  const { kinds } = closing(openChecks({ retries }));
  const monitors = new HealthMonitors(
    {
      table,
      kinds,
      credentials: {
        configured: null,
        trustsResources: true,
        ofCluster: async () => null,
        report: () => undefined,
      },
      logger: capturingLogger(log),
      registry: new Registry(),
      clock: systemClock,
      random: () => 0.5,
    },
    { ...defaultMonitorSettings, interval: 30, timeout: 10_000, ...settings },
  );
  table.setInputs({ clusters });
  monitors.start();
  closing({ close: async () => monitors.stop() });
  const health = (name: string) => table.current.clusters.get(name)?.health;
  return { table, monitors, log, health, status: (name: string) => health(name)?.status };
}

test('clusters start, fail, and come back', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a', state: { starting: true } }));
  const { status, health, log } = monitor([clusterAt('a', engine.url, { healthCheck: { interval: '20ms' } })]);
  await until(() => health('a')?.checkedAt !== null, 'the first check');
  expect(status('a')).toBe('PENDING');
  engine.setState({ starting: false });
  await until(() => status('a') === 'HEALTHY', 'HEALTHY');
  engine.setState({ failing: 500 });
  await until(() => status('a') === 'UNHEALTHY', 'UNHEALTHY');
  expect(health('a')!.reason).toBe(`GET ${engine.url}/v1/info: status 500`);
  engine.setState({ failing: 0 });
  await until(() => status('a') === 'HEALTHY', 'HEALTHY again');
  expect(log.map((line) => `${line.from}>${line.to}`)).toEqual([
    'PENDING>HEALTHY',
    'HEALTHY>UNHEALTHY',
    'UNHEALTHY>HEALTHY',
  ]);
});

test.each([
  ['no JSON', '<html>', 'the answer is not JSON'],
  ['no starting', '{"uptime":"1m"}', 'the answer has no field "starting"'],
  ['null', 'null', 'the answer has no field "starting"'],
  ['too long', 'x'.repeat(200_000), 'more than 65536 bytes'],
])('an answer that is %s is UNHEALTHY', async (_what, body, reason) => {
  const server = await startServer((_request, response) => void response.end(body));
  const { status, health } = monitor([clusterAt('a', server.url)]);
  await until(() => status('a') === 'UNHEALTHY', 'UNHEALTHY');
  expect(health('a')!.reason).toBe(`GET ${server.url}/v1/info: ${reason}`);
});

test('one that hangs, one that is unavailable, and one whose address is no host do not keep others from a verdict', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'good' }));
  const hanging = closing(await startSimulatedEngine({ name: 'hanging', state: { hanging: true } }));
  const hangingCluster = (timeout: string) => clusterAt('hanging', hanging.url, { healthCheck: { timeout } });
  const clusters = [
    clusterAt('away', `http://127.0.0.1:${await freePort()}`),
    clusterAt('good', engine.url),
    clusterAt('nohost', 'http://no-such-host.invalid', { healthCheck: { timeout: '2s' } }),
  ];
  const { table, status, health } = monitor([...clusters, hangingCluster('10m')]);
  await until(() => status('good') === 'HEALTHY', 'HEALTHY');
  await until(() => ['away', 'nohost'].every((name) => status(name) === 'UNHEALTHY'), 'UNHEALTHY');
  expect(status('hanging')).toBe('PENDING');
  table.setInputs({ clusters: [...clusters, hangingCluster('500ms')] });
  await until(() => status('hanging') === 'UNHEALTHY', 'the hanging one UNHEALTHY');
  expect(health('hanging')!.reason).toMatch(/no answer in time$/);
  expect(health('away')!.reason).toMatch(/connection refused$/);
});

test('503 is asked again at once as often as monitor.retries says', async () => {
  let asked = 0;
  const server = await startServer((_request, response) => {
    asked++;
    response.writeHead(asked < 3 ? 503 : 200).end('{"starting":false}');
  });
  const { status } = monitor([clusterAt('a', server.url)], { interval: 60_000 }, 2);
  await until(() => status('a') === 'HEALTHY', 'HEALTHY');
  expect(asked).toBe(3);
});

test('clusters that come, change and go are followed; NOOP is HEALTHY unasked', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
  const { table, status } = monitor([], { interval: 60_000 });
  table.setInputs({ clusters: [clusterAt('a', `http://127.0.0.1:${await freePort()}`)] });
  await until(() => status('a') === 'UNHEALTHY', 'UNHEALTHY');
  table.setInputs({ clusters: [clusterAt('a', engine.url)] });
  await until(() => status('a') === 'HEALTHY', 'HEALTHY at the new address');
  table.setInputs({ clusters: [clusterAt('n', 'http://nowhere.invalid', { healthCheck: { type: 'None' } })] });
  await until(() => status('n') === 'HEALTHY', 'HEALTHY by NOOP');
  expect(status('a')).toBeUndefined();
});

test('a refused connection of a request counts at once, and the cluster is looked at again soon', async () => {
  const engine = closing(await startSimulatedEngine({ name: 'a' }));
  const clusters = [clusterAt('a', engine.url), clusterAt('n', engine.url, { healthCheck: { type: 'None' } })];
  const { monitors, status, health } = monitor(clusters, { interval: 60_000, failureThreshold: 5 });
  await until(() => status('a') === 'HEALTHY' && status('n') === 'HEALTHY', 'HEALTHY');
  monitors.connectionFailed('a', 'http://old:1', 'connection refused');
  expect(status('a')).toBe('HEALTHY');
  monitors.connectionFailed('a', engine.url, 'connection refused');
  monitors.connectionFailed('n', engine.url, 'connection refused');
  expect(health('a')).toMatchObject({ status: 'UNHEALTHY', reason: 'a request could not connect: connection refused' });
  expect(status('n')).toBe('HEALTHY');
  await until(() => status('a') === 'HEALTHY', 'HEALTHY again');
});

test('ready once every cluster has a verdict, or 5 s after the table was loaded', () => {
  let time = 0;
  const clock = { now: () => time, monotonic: () => time };
  const table = new RoutingTableHolder();
  const ready = routingReadinessOf(table, clock, () => true);
  time = 60_000;
  expect(ready().ready).toBe(false);
  table.setInputs({ clusters: [clusterAt('a', 'http://a:1')] });
  expect(ready()).toEqual({ ready: false, unchecked: ['a'] });
  time += 4_999;
  expect(ready().ready).toBe(false);
  time += 1;
  expect(ready()).toEqual({ ready: true, unchecked: ['a'] });

  const other = new RoutingTableHolder();
  const readyOther = routingReadinessOf(other, clock, () => true);
  other.setInputs({ clusters: [] });
  expect(readyOther().ready).toBe(true);
  other.setInputs({ clusters: [clusterAt('a', 'http://a:1')] });
  expect(readyOther()).toEqual({ ready: true, unchecked: ['a'] });
});
