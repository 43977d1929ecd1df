import { GroupBindings, type GroupRights } from '../model/groupBindings.ts';
import type { RouteRights } from './routeRights.ts';

/**
 * Returns the rights of rules by `resources.groups`: to a group, and to a cluster by its group.
 * @param clusters currently routed clusters
 * @param defaultGroup the group of queries for which no rule chooses
 * @returns null if every rule may route everywhere
 */
export function routeRights(
  groups: GroupBindings,
  clusters: readonly { readonly name: string; readonly routingGroup: string }[],
  defaultGroup: string,
): RouteRights | null {
  if (groups.areOpen) return null;
  return boundRights(groups, new Map(clusters.map(({ name, routingGroup }) => [name, routingGroup])), defaultGroup);
}

/** Restores rights from their version, which contains all data, for another thread. */
export function rightsOfVersion(version: string): RouteRights {
  const [key, defaultGroup, groupOf] = JSON.parse(version) as [string, string, [string, string][]];
  const groups = new GroupBindings(Object.fromEntries(JSON.parse(key) as [string, GroupRights][]));
  return boundRights(groups, new Map(groupOf), defaultGroup);
}

function boundRights(groups: GroupBindings, groupOf: ReadonlyMap<string, string>, defaultGroup: string): RouteRights {
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
