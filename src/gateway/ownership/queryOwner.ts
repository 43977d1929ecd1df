import { type ClusterEntry, neverChecked, type RoutingTable } from '../../routing/routingTable.ts';

export interface QueryOwner {
  /** Registry name when it was learned; "" when only the address is known. */
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  /** uid of the resource that registered the cluster then; left out if it is missing, or it is not known. */
  readonly uid?: string | undefined;
}

/** The owner in a stored row. */
export function ownerOf({ cluster, proxyTo, uid }: QueryOwner): QueryOwner {
  return uid === undefined ? { cluster, proxyTo } : { cluster, proxyTo, uid };
}

/** Reason that a cluster does not become the owner of a query id in its response. */
export type OwnershipConflict = { readonly kind: 'owned'; readonly owner: QueryOwner } | { readonly kind: 'tooMany' };

/** The owner of a query as a cluster; one that was deleted, or has another address by now, as it was. */
export function ownerCluster(table: RoutingTable, owner: QueryOwner): ClusterEntry {
  const { cluster: name, proxyTo, uid } = owner;
  const cluster = table.clusters.get(name);
  // The name may be registered again by another resource: the uid is that of the owner.
  if (cluster !== undefined) return cluster.proxyTo === proxyTo ? cluster : { ...cluster, proxyTo, uid };
  for (const cluster of table.clusters.values()) if (cluster.proxyTo === proxyTo) return cluster;
  return {
    ...{ name, proxyTo, externalUrl: proxyTo, routingGroup: '', active: false, weight: 0 },
    ...{ healthCheck: null, tls: null, origin: 'resource', uid, health: neverChecked },
  };
}

/** The owner with the uid of its registration, where its cluster is registered at the same address now. */
export function identified(table: RoutingTable, owner: QueryOwner): QueryOwner {
  const { cluster, proxyTo } = owner;
  const registered = table.clusters.get(cluster);
  return registered?.proxyTo === proxyTo ? { cluster, proxyTo, uid: registered.uid } : owner;
}

/**
 * True if an owner may have moved to another address: the resource that registered it has that address now, and no
 * other cluster is registered where it was. A name alone states nothing: after a deletion another user may register it
 * again. Clusters without a resource (rows of Trino Gateway) are the same by name.
 */
export function mayHaveMoved(table: RoutingTable, from: QueryOwner, to: QueryOwner): boolean {
  if (from.cluster === '' || from.cluster !== to.cluster || from.uid !== to.uid) return false;
  for (const { proxyTo, name } of table.clusters.values()) {
    if (proxyTo === from.proxyTo && name !== from.cluster) return false;
  }
  return true;
}

/** The owner at the address that its cluster is registered with now; null if it cannot have moved there. */
export function movedOwner(table: RoutingTable, owner: QueryOwner): QueryOwner | null {
  const entry = table.clusters.get(owner.cluster);
  if (entry === undefined || entry.proxyTo === owner.proxyTo) return null;
  const to = { cluster: entry.name, proxyTo: entry.proxyTo, uid: entry.uid };
  return mayHaveMoved(table, owner, to) ? to : null;
}
