import type { ClusterChanges } from '../gateway/health/clusterChanges.ts';
import { declaredFields } from '../kinds/engineCluster/declaredFields.ts';
import { activationVersion } from '../operator/registry/activationVersion.ts';
import type { InventoryCluster } from '../operator/registry/clusterInventory.ts';
import { activeClustersOf, newQueriesWithout } from '../routing/newQueries.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { ClusterDetails } from './answers/clusters.ts';
import { clusterState } from './clusterState.ts';

export interface ClusterDetailsOptions {
  readonly inventory: () => readonly InventoryCluster[];
  readonly table: RoutingTableHolder;
  readonly changes: ClusterChanges;
  readonly replica: string;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
}

/** All that is known of a cluster; null if the name is unknown, routed or not. */
export function clusterDetails(name: string, options: ClusterDetailsOptions): ClusterDetails | null {
  const { inventory, table, changes, replica, defaultGroup } = options;
  const cluster = clusterNamed(name, inventory());
  if (cluster === null) return null;
  const { routable, resource } = cluster;
  const { clusters } = table.current;
  const entry = routable === null ? undefined : clusters.get(name);
  const checkedAt = entry?.health.checkedAt ?? null;
  const group = routable?.routingGroup;
  return {
    ...clusterState(cluster, table),
    version: switchedVersion(cluster),
    checkedAt: checkedAt === null ? null : iso(checkedAt),
    sharesUrlWith: [...clusters.values()]
      .filter((other) => other.proxyTo === entry?.proxyTo && other.name !== name)
      .map((other) => other.name),
    group:
      group === undefined
        ? null
        : {
            name: group,
            isDefault: group === defaultGroup,
            others: activeClustersOf(table.current, group).filter((other) => other !== name),
            withoutTakers: newQueriesWithout(table.current, group, defaultGroup),
          },
    replica,
    changes: (entry === undefined ? [] : changes.of(name)).map(({ since, ...change }) => ({
      since: iso(since),
      ...change,
    })),
    fields:
      resource === null
        ? []
        : declaredFields(resource.spec, routable).map((field) => ({
            ...field,
            managers: resource.managers.flatMap(({ manager, fields }) =>
              fields.some((each) => each === field.field || each.startsWith(`${field.field}.`)) ? [manager] : [],
            ),
          })),
  };
}

/** The cluster of a name: the routed one, where several resources claim it, or null. */
export function clusterNamed(name: string, inventory: readonly InventoryCluster[]): InventoryCluster | null {
  const claims = inventory.filter((cluster) => cluster.name === name);
  return claims.find(({ routable }) => routable !== null) ?? claims[0] ?? null;
}

/** Changes with each activation or deactivation of the cluster. */
export function switchedVersion({ routable, resource }: InventoryCluster): string {
  return activationVersion(routable?.active ?? resource?.specActive ?? false, resource?.override ?? null);
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
