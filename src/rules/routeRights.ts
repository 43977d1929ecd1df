import { GroupBindings, type GroupRights } from '../model/groupBindings.ts';

/** Rights of the rules of a namespace to routing groups and clusters, by `resources.groups`. */
export class RouteRights {
  /** Changes whenever a result may change; contains all data. */
  readonly version: string;
  readonly #groups: GroupBindings;
  readonly #groupOf: ReadonlyMap<string, string>;
  readonly #defaultGroup: string;

  /**
   * @param groupOf routing groups of the clusters, by registry name
   * @param defaultGroup the group of queries for which no rule chooses
   */
  constructor(groups: GroupBindings, groupOf: ReadonlyMap<string, string>, defaultGroup: string) {
    this.#groups = groups;
    this.#groupOf = groupOf;
    this.#defaultGroup = defaultGroup;
    this.version = JSON.stringify([groups.key, defaultGroup, [...groupOf].sort(([a], [b]) => (a < b ? -1 : 1))]);
  }

  /** Returns the reason that rules of a namespace may not route to a group, with the fix; null if they may. */
  groupRejection(namespace: string, group: string): string | null {
    return this.#groups.routeRejection(namespace, group);
  }

  /**
   * Returns the reason that they may not route to a cluster, by registry name; null if they may, or if the cluster does
   * not exist.
   */
  clusterRejection(namespace: string, cluster: string): string | null {
    const group = this.#groupOf.get(cluster);
    const rejection = group === undefined ? null : this.#groups.routeRejection(namespace, group);
    return rejection === null ? null : `cluster ${cluster}: ${rejection}`;
  }

  /** Queries that deny rules of a namespace may reject: all, queries to some routing groups, or none. */
  deniable(namespace: string): 'all' | 'some' | 'none' {
    return this.#groups.deniable(namespace);
  }

  /**
   * Returns the reason that a deny rule of a namespace may not reject a query; null if it may.
   * @param cluster destination of the query; null: its group
   * @param group null: the default group
   */
  denyRejection(namespace: string, cluster: string | null, group: string | null): string | null {
    const target = (cluster === null ? group : this.#groupOf.get(cluster)) ?? this.#defaultGroup;
    return this.#groups.denyRejection(namespace, target);
  }
}

/** Returns the rights of rules for the routed clusters; null if every rule may route everywhere. */
export function routeRights(
  groups: GroupBindings,
  clusters: readonly { readonly name: string; readonly routingGroup: string }[],
  defaultGroup: string,
): RouteRights | null {
  const groupOf = new Map(clusters.map(({ name, routingGroup }) => [name, routingGroup]));
  return groups.areOpen ? null : new RouteRights(groups, groupOf, defaultGroup);
}

/** Restores rights from their version, for another thread. */
export function rightsOfVersion(version: string): RouteRights {
  const [key, defaultGroup, groupOf] = JSON.parse(version) as [string, string, [string, string][]];
  const groups = new GroupBindings(Object.fromEntries(JSON.parse(key) as [string, GroupRights][]));
  return new RouteRights(groups, new Map(groupOf), defaultGroup);
}
