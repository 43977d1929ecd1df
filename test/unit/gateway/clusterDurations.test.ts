import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { ClusterDurations } from '../../../src/gateway/metrics/clusterDurations.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const NAME = 'engine_gateway_cluster_request_duration_seconds';

/** Clusters `c0` and so on, each in the group that `groupOf` says. */
function clusters(count: number, groupOf: (index: number) => string) {
  return Array.from({ length: count }, (_, index) => ({
    ...clusterAt(`c${index}`, `http://c${index}:8080`),
    routingGroup: groupOf(index),
  }));
}

function makeDurations() {
  const registry = new Registry();
  const table = new RoutingTableHolder();
  const durations = new ClusterDurations(registry, table);
  /** Requests counted, by `cluster/group/kind`. */
  const counted = async () => {
    const { values } = await registry.getSingleMetric(NAME)!.get();
    const counts = values.filter((value) => 'metricName' in value && value.metricName === `${NAME}_count`);
    return Object.fromEntries(
      counts.map(({ labels, value }) => [`${labels.cluster}/${labels.routing_group}/${labels.kind}`, value]),
    );
  };
  return { table, durations, counted };
}

test('each cluster has times of its own, and gives them up when it leaves or moves to another group', async () => {
  const { table, durations, counted } = makeDurations();
  table.setInputs({ clusters: clusters(2, () => 'adhoc') });
  durations.observe('c0', 'submission', 0.3);
  durations.observe('c0', 'follow_up', 0.3);
  durations.observe('c1', 'follow_up', 0.3);
  durations.observe('gone', 'follow_up', 0.3);
  expect(await counted()).toEqual({
    'c0/adhoc/submission': 1,
    'c0/adhoc/follow_up': 1,
    'c1/adhoc/follow_up': 1,
  });
  table.setInputs({ clusters: clusters(1, () => 'etl') });
  durations.observe('c0', 'follow_up', 0.3);
  expect(await counted()).toEqual({ 'c0/etl/follow_up': 1 });
});

test('thousands of clusters and groups have a bounded number of series', async () => {
  const { table, durations, counted } = makeDurations();
  table.setInputs({ clusters: clusters(5_000, (index) => `g${index % 1_000}`) });
  for (const { name } of table.current.clusters.values()) durations.observe(name, 'follow_up', 0.3);
  const counts = await counted();
  // 200 clusters, 100 groups, and what is left.
  expect(Object.keys(counts)).toHaveLength(301);
  expect(counts).toMatchObject({ 'c0/g0/follow_up': 1, '/g200/follow_up': 5 });
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(5_000);
});
