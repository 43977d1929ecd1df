import type { InventoryCluster } from '../operator/registry/clusterInventory.ts';
import { takesNewQueries } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { ClusterState } from './answers/clusters.ts';

export function clusterState(
  { name, origin, routable, resource }: InventoryCluster,
  table: RoutingTableHolder,
): ClusterState {
  const entry = routable === null ? undefined : table.current.clusters.get(name);
  const health = entry?.health;
  const { specActive = null, override = null } = resource ?? {};
  return {
    name,
    routed: routable !== null,
    proxyTo: routable?.proxyTo ?? null,
    externalUrl: routable?.externalUrl ?? null,
    routingGroup: routable?.routingGroup ?? null,
    active: routable?.active ?? false,
    takesNewQueries: entry !== undefined && takesNewQueries(entry),
    specActive,
    override: override === null ? null : { active: override.active, by: override.by, at: override.at },
    differs: override !== null && override.active !== specActive,
    status: health?.status ?? 'PENDING',
    reason: health?.reason ?? notRouted(resource),
    ejection: health?.ejection ?? null,
    flappingSince: health?.flappingSince == null ? null : new Date(health.flappingSince).toISOString(),
    queued: health?.queued ?? null,
    running: health?.running ?? null,
    workers: health?.workers ?? null,
    maxRunningQueries: routable?.maxRunningQueries ?? null,
    origin,
    resource: resource === null ? null : resourceState(resource),
    discovery: resource?.discovery ?? null,
  };
}

function notRouted(resource: InventoryCluster['resource']): string {
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  return acceptance?.status === 'True' ? 'not in the routing table yet' : (acceptance?.message ?? 'not looked at yet');
}

function resourceState({
  namespace,
  name,
  generation,
  place,
  managers,
  paused,
  conditions,
}: NonNullable<InventoryCluster['resource']>): ClusterState['resource'] {
  return {
    namespace,
    name,
    generation,
    place,
    managers,
    paused,
    conditions,
  };
}
