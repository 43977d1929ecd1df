import type { RoutingTable } from '../../routing/routingTable.ts';

export interface QueryOwner {
  /** Registry name when it was learned; "" when only the address is known. */
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  /** uid of the resource that registered the cluster then; left out if it is missing, or it is not known. */
  readonly uid?: string | undefined;
}

/** Reason that a cluster does not become the owner of a query id in its response. */
export type OwnershipConflict = { readonly kind: 'owned'; readonly owner: QueryOwner } | { readonly kind: 'tooMany' };

/**
 * True if two owners were registered by the same resource. A name alone states nothing: after a deletion another user
 * may register it again. Clusters without a resource (rows of Trino Gateway) are the same by name.
 */
function sameRegistration(one: QueryOwner, other: QueryOwner): boolean {
  return one.cluster !== '' && one.cluster === other.cluster && one.uid === other.uid;
}

/** The owner with the uid of its registration, where its cluster is registered at the same address now. */
export function identified(table: RoutingTable, owner: QueryOwner): QueryOwner {
  const { cluster, proxyTo } = owner;
  const registered = table.clusters.get(cluster);
  return registered?.proxyTo === proxyTo ? { cluster, proxyTo, uid: registered.uid } : owner;
}

/** True if a cluster of another name is registered with a `proxyTo`. */
function isRegisteredByAnother(table: RoutingTable, { cluster, proxyTo }: QueryOwner): boolean {
  for (const entry of table.clusters.values()) if (entry.proxyTo === proxyTo && entry.name !== cluster) return true;
  return false;
}

/**
 * True if an owner may have moved to another address: the resource that registered it has that address now, and no
 * other cluster is registered where it was.
 */
export function mayHaveMoved(table: RoutingTable, from: QueryOwner, to: QueryOwner): boolean {
  return sameRegistration(from, to) && !isRegisteredByAnother(table, from);
}

/** The owner at the address that its cluster is registered with now; null if it cannot have moved there. */
export function movedOwner(table: RoutingTable, owner: QueryOwner): QueryOwner | null {
  const entry = table.clusters.get(owner.cluster);
  if (entry === undefined || entry.proxyTo === owner.proxyTo) return null;
  const to = { cluster: entry.name, proxyTo: entry.proxyTo, uid: entry.uid };
  return mayHaveMoved(table, owner, to) ? to : null;
}
