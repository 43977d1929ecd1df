import type { GroupBindings } from '../../model/groupBindings.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { RouteRights } from '../../rules/routeRights.ts';

/**
 * The rights of rules by `resources.groups`: to a group, and to a cluster by the group that it belongs to.
 * @param clusters what is routed now
 * @param defaultGroup the group of queries for which no rule chooses
 * @returns null where every rule may route everywhere
 */
export function routeRights(
  groups: GroupBindings,
  clusters: readonly RoutableCluster[],
  defaultGroup: string,
): RouteRights | null {
  if (groups.areOpen) return null;
  const groupOf = new Map(clusters.map(({ name, routingGroup }) => [name, routingGroup]));
  return {
    version: JSON.stringify([groups.key, defaultGroup, [...groupOf].sort(([a], [b]) => (a < b ? -1 : 1))]),
    groupRefusal: (namespace, group) => groups.routeRefusal(namespace, group),
    clusterRefusal: (namespace, cluster) => {
      const group = groupOf.get(cluster);
      const refusal = group === undefined ? null : groups.routeRefusal(namespace, group);
      return refusal === null ? null : `cluster ${cluster}: ${refusal}`;
    },
    deniable: (namespace) => groups.deniable(namespace),
    denyRefusal: (namespace, { cluster, group }) =>
      groups.denyRefusal(namespace, (cluster === null ? group : groupOf.get(cluster)) ?? defaultGroup),
  };
}
