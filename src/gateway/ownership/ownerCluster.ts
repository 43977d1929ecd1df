import { type ClusterEntry, neverChecked, type RoutingTable } from '../../routing/routingTable.ts';
import type { QueryOwner } from './queryOwner.ts';

/** The owner of a query as a cluster; one that was deleted, or has another address by now, as it was. */
export function ownerCluster(table: RoutingTable, owner: QueryOwner): ClusterEntry {
  const { cluster: name, proxyTo, uid } = owner;
  const cluster = table.clusters.get(name);
  // The name may be registered again by another resource: the uid is that of the owner.
  if (cluster !== undefined) return cluster.proxyTo === proxyTo ? cluster : { ...cluster, proxyTo, uid };
  for (const cluster of table.clusters.values()) if (cluster.proxyTo === proxyTo) return cluster;
  return {
    name,
    proxyTo,
    externalUrl: proxyTo,
    routingGroup: '',
    active: false,
    weight: 0,
    healthCheck: null,
    tls: null,
    origin: 'resource',
    uid,
    health: neverChecked,
  };
}
