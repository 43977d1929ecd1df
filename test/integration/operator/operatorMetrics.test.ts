import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { operatorMetrics } from '../../../src/operator/reconcile/metrics.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import { type OperatorRig, quickDirectory, startOperator } from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
const resources = `
apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata: {name: a}
spec: {proxyTo: http://a:8080, routingGroup: adhoc}
---
apiVersion: enginegateway.dev/v1
kind: RoutingRule
metadata: {name: good}
spec: {condition: 'true', routeTo: {routingGroup: adhoc}}
---
apiVersion: enginegateway.dev/v1
kind: RoutingRule
metadata: {name: bad}
spec: {condition: 'no rule at all (', routeTo: {routingGroup: adhoc}}
`;

let directory: string;
let store: Store;
let registry: Registry;
const rigs: OperatorRig[] = [];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eg-operator-metrics-'));
  await writeFile(join(directory, 'resources.yaml'), resources);
  store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(directory, 'x.db')}`, runMigrations: true, logger });
  registry = new Registry();
});
afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.stop();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});

const start = async (metrics: Registry): Promise<void> => {
  rigs.push(
    await startOperator(store, quickDirectory(directory), { controller: { metrics: operatorMetrics(metrics) } }),
  );
};
/** A sample by its name and labels as the text has them; null where there is none. */
const sample = async (text: string): Promise<number | null> => {
  const line = (await registry.metrics()).split('\n').find((each) => each.startsWith(`${text} `));
  return line === undefined ? null : Number(line.slice(text.length + 1));
};
const until = (check: () => Promise<void>): Promise<void> => vi.waitFor(check, { timeout: 30_000, interval: 20 });

test('reconciles, queue, conditions and rules have the metrics that operators know', async () => {
  await start(registry);
  await until(async () => {
    expect(
      await sample('engine_gateway_resource_conditions{kind="EngineCluster",condition="Ready",status="True"}'),
    ).toBe(1);
    expect(
      await sample('engine_gateway_resource_conditions{kind="RoutingRule",condition="Accepted",status="True"}'),
    ).toBe(1);
    expect(
      await sample('engine_gateway_resource_conditions{kind="RoutingRule",condition="Accepted",status="False"}'),
    ).toBe(1);
    const bad = 'kind="RoutingRule",resource_namespace="default",resource_name="bad"';
    for (const type of ['Accepted', 'Ready', 'Programmed']) {
      const series = `engine_gateway_unready_resource_conditions{${bad},condition="${type}",status="False"}`;
      expect([type, await sample(series)]).toEqual([type, 1]);
    }
    expect(await registry.metrics()).not.toContain('resource_name="good"');
    expect(await sample('engine_gateway_status_writes_total{result="written"}')).toBeGreaterThanOrEqual(3);
  });
  expect(await sample('engine_gateway_status_writes_total{result="failed"}')).toBe(0);
  expect(await sample('engine_gateway_rules_rejected{origin="resource"}')).toBe(1);
  expect(await sample('engine_gateway_rules_rejected{origin="file"}')).toBe(0);
  expect(await sample('engine_gateway_database_available')).toBe(1);
  expect(await sample('leader_election_master_status{name="engine-gateway"}')).toBe(1);
  const ended = await sample('controller_runtime_reconcile_total{controller="routingrule",result="success"}');
  expect(ended).toBeGreaterThanOrEqual(2);
  expect(await sample('controller_runtime_reconcile_time_seconds_count{controller="routingrule"}')).toBe(ended);
  expect(await sample('controller_runtime_reconcile_errors_total{controller="routingrule"}')).toBe(0);
  await until(async () => {
    expect(await sample('workqueue_depth{name="routingrule"}')).toBe(0);
    expect(await sample('workqueue_longest_running_processor_seconds{name="routingrule"}')).toBe(0);
  });
  expect(await sample('workqueue_adds_total{name="routingrule"}')).toBeGreaterThanOrEqual(2);
  expect(await sample('workqueue_work_duration_seconds_count{name="routingrule"}')).toBeGreaterThanOrEqual(2);
});

test('a database that is lost shows, as do the reconciles that fail and are repeated', async () => {
  await start(registry);
  await until(async () => expect(await sample('engine_gateway_database_available')).toBe(1));
  await store.close();
  await writeFile(join(directory, 'resources.yaml'), resources.replace('name: a', 'name: b'));
  await until(async () => {
    expect(await sample('engine_gateway_database_available')).toBe(0);
    expect(await sample('controller_runtime_reconcile_errors_total{controller="enginecluster"}')).toBeGreaterThan(0);
    expect(await sample('workqueue_retries_total{name="enginecluster"}')).toBeGreaterThan(0);
    expect(await sample('engine_gateway_reconcile_errors_total')).toBeGreaterThan(0);
  });
});
