import { Registry } from 'prom-client';
import { afterEach, expect, test } from 'vitest';
import { type SimulatedEngine, startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { HealthCheckKinds } from '../../../src/gateway/health/healthCheck.ts';
import { HealthMonitors, type MonitorSettings } from '../../../src/gateway/health/healthMonitors.ts';
import { RoutingTableHolder } from '../../../src/routing/routingTable.ts';
import { capturingLogger, closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { defaultMonitorSettings, openChecks } from '../../support/healthChecks.ts';
import { submit } from '../../support/statementClient.ts';

afterEach(closeAll);

interface Member {
  readonly name: string;
  readonly proxyTo: string;
}

/** Monitors of a group with a clock that the test moves; `check` has every cluster checked now. */
async function monitored(
  members: readonly Member[],
  settings: Partial<MonitorSettings> = {},
  kinds: HealthCheckKinds = closing(openChecks()).kinds,
  table = new RoutingTableHolder(),
) {
  let time = 1_000_000;
  const registry = new Registry();
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
      logger: capturingLogger([]),
      registry,
      clock: { now: () => 1_700_000_000_000 + time, monotonic: () => time },
      random: () => 0.5,
    },
    { ...defaultMonitorSettings, interval: 3_600_000, ...settings },
  );
  table.setInputs({ clusters: members.map(({ name, proxyTo }) => clusterAt(name, proxyTo)) });
  monitors.start();
  closing({ close: async () => monitors.stop() });
  const check = async () => void (await Promise.all(members.map(({ name }) => monitors.checkNow(name))));
  await check();
  const health = (name: string) => table.current.clusters.get(name)!.health;
  return {
    table,
    monitors,
    check,
    health,
    now: () => 1_700_000_000_000 + time,
    fail: (name: string, inARow = 5) => {
      const { proxyTo } = members.find((member) => member.name === name)!;
      monitors.serverFailed(name, proxyTo, 'status 503', inARow);
    },
    /** Time passes, and all clusters are checked. */
    pass: async (milliseconds: number) => {
      time += milliseconds;
      await check();
    },
    metric: async (name: string) => (await registry.getSingleMetric(name)!.get()).values.map(({ value }) => value),
  };
}

async function engines(...names: readonly string[]): Promise<(SimulatedEngine & Member)[]> {
  const started = names.map(async (name) => {
    const engine = closing(await startSimulatedEngine({ name }));
    return Object.assign(engine, { proxyTo: engine.url });
  });
  return await Promise.all(started);
}

test('ejections of a cluster that passes its checks double up to the longest one; it flaps until it stays', async () => {
  const { fail, pass, health, now, metric } = await monitored(await engines('a', 'b'), { maxEjectionTime: 60_000 });
  const since = now();
  expect(health('a')).toMatchObject({ status: 'HEALTHY', ejection: null, flappingSince: null });
  for (const [index, seconds] of [10, 20, 40, 60, 60].entries()) {
    fail('a');
    const reason = expect.stringMatching(
      new RegExp(`the last one: status 503; ejected for ${seconds === 60 ? '1.00m' : `${seconds}.00s`}$`),
    );
    const flappingSince = index === 0 ? null : since;
    expect(health('a')).toMatchObject({ status: 'UNHEALTHY', ejection: 'ejected', reason, flappingSince });
    await pass(seconds * 1_000 - 1);
    // The check finds it healthy; it stays ejected.
    expect(health('a')).toMatchObject({ status: 'UNHEALTHY', ejection: 'ejected', reason });
    await pass(1);
    expect(health('a')).toMatchObject({ status: 'HEALTHY', ejection: 'trial', flappingSince });
  }
  expect(await metric('engine_gateway_cluster_taken_out_total')).toEqual([5]);
  await pass(59_999);
  expect(health('a')).toMatchObject({ ejection: 'trial', flappingSince: since });
  await pass(1);
  expect(health('a')).toMatchObject({ ejection: null, flappingSince: null });
  fail('a');
  expect(health('a').reason).toMatch(/ejected for 10\.00s$/);
});

test('a cluster that says that it starts is another process: its ejections are forgotten', async () => {
  const [a, b] = await engines('a', 'b');
  const { fail, check, health } = await monitored([a!, b!]);
  fail('a');
  a!.setState({ starting: true });
  await check();
  expect(health('a')).toMatchObject({ status: 'PENDING', ejection: null });
  a!.setState({ starting: false });
  await check();
  expect(health('a')).toMatchObject({ status: 'HEALTHY', ejection: null, flappingSince: null });
});

test('a cluster on trial takes a tenth of its share, then all of it', async () => {
  const members = await engines('a', 'b');
  const clusters = members.map(({ name, proxyTo }) => clusterAt(name, proxyTo));
  let seed = 1;
  const random = () => {
    seed = (seed * 16_807) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const gateway = await startGateway({ clusters, random });
  const { fail, pass, health } = await monitored(members, {}, undefined, gateway.table);
  const sendQueries = async (count: number) => {
    const before = members.map(({ queries }) => queries.length);
    for (let sent = 0; sent < count; sent++) await submit(gateway.url, 'SELECT 1');
    return members.map(({ queries }, index) => queries.length - (before[index] as number));
  };
  fail('a');
  expect(await sendQueries(20)).toEqual([0, 20]);
  await pass(10_000);
  expect(health('a').ejection).toBe('trial');
  const [onTrial = 0] = await sendQueries(400);
  expect(onTrial).toBeGreaterThan(8);
  expect(onTrial).toBeLessThan(36);
  await pass(10_000);
  const [whole = 0] = await sendQueries(100);
  expect(whole).toBeGreaterThan(30);
});

test('the last cluster of a group is kept, whatever fails; with 100 percent it is ejected', async () => {
  const members = await engines('a', 'b', 'c');
  const { fail, health, metric, monitors } = await monitored(members, { maxEjectionPercent: 67 });
  for (const name of ['a', 'b', 'c']) fail(name);
  expect(['a', 'b', 'c'].map((name) => health(name).status)).toEqual(['UNHEALTHY', 'UNHEALTHY', 'HEALTHY']);
  expect(await metric('engine_gateway_cluster_ejections_prevented_total')).toEqual([1]);
  // A cluster that cannot be connected to is no help.
  monitors.connectionFailed('c', members[2]!.proxyTo, 'connection refused');
  expect(health('c')).toMatchObject({ status: 'UNHEALTHY', reason: 'a request could not connect: connection refused' });
  const all = await monitored(members, { maxEjectionPercent: 100 });
  for (const name of ['a', 'b', 'c']) all.fail(name);
  expect(all.table.current.groups.get('adhoc')?.map((cluster) => cluster.health.ejection)).toEqual(
    Array.from({ length: 3 }, () => 'ejected'),
  );
});
