import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { LeasedSlots } from '../../../src/admission/leasedSlots.ts';
import { measureDifference } from '../../../src/gateway/admission/clusterDifference.ts';
import { noPolicy } from '../../../src/routing/admissionPolicy.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { clusterAt } from '../../support/routableCluster.ts';

test('what clusters with a limit report beyond what is counted of them is shown, where their health checks report it', async () => {
  const clock = { now: () => 0, monotonic: () => 0 };
  const table = new RoutingTableHolder();
  const clusters = ['more', 'fewer', 'silent', 'unlimited'].map((name) => ({
    ...clusterAt(name, `http://${name}:8080`),
    ...(name === 'unlimited' ? {} : { maxRunningQueries: 9 }),
  }));
  table.setInputs({ clusters, rules: null, admission: noPolicy });
  const reported: Readonly<Record<string, number | null>> = { more: 5, fewer: 1, silent: null, unlimited: 7 };
  for (const { name, proxyTo } of clusters) {
    table.setHealth(name, proxyTo, { ...neverChecked, status: 'HEALTHY', running: reported[name] ?? null });
  }
  const ledger = new LeasedSlots({ replica: 'r', clock, random: () => 0 });
  for (const name of ['more', 'fewer', 'silent']) {
    for (let query = 0; query < 3; query++) ledger.adopt([{ key: `cluster:${name}`, limit: 9, rate: null }]);
  }
  const registry = new Registry();
  measureDifference(registry, table, ledger);
  const { values } = (await registry.getSingleMetric('engine_gateway_cluster_uncounted_queries')?.get()) ?? {
    values: [],
  };
  expect(values).toEqual([
    { labels: { cluster: 'fewer' }, value: -2 },
    { labels: { cluster: 'more' }, value: 2 },
  ]);
});
