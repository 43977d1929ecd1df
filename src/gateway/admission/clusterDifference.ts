import { Gauge, type Registry } from 'prom-client';
import type { LimitCounters } from '../../admission/limitCounters.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { clusterDemand } from './limitDemands.ts';

/**
 * Exports the difference between running queries of clusters and counted ones: queries that bypassed the gateway, or
 * wrong counts.
 */
export function measureDifference(
  registry: Registry,
  table: { readonly current: RoutingTable },
  counters: Pick<LimitCounters, 'use'>,
): void {
  const difference = new Gauge({
    name: 'engine_gateway_cluster_uncounted_queries',
    help: 'Queries that a cluster with maxRunningQueries reports as running beyond those that the gateway counts there, as of its last health check; negative where it reports fewer. Of clusters whose health check reports them (docs/limits.md).',
    labelNames: ['cluster'],
    registers: [registry],
    collect: () => {
      difference.reset();
      for (const cluster of table.current.clusters.values()) {
        const demand = clusterDemand(cluster);
        const { running } = cluster.health;
        if (demand !== null && running !== null)
          difference.set({ cluster: cluster.name }, running - counters.use(demand.key));
      }
    },
  });
}
