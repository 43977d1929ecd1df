import type { RoutableCluster } from '../../src/routing/routingTable.ts';

/** A cluster for the routing table. */
export function clusterAt(name: string, url: string, more: Partial<RoutableCluster> = {}): RoutableCluster {
  return {
    name,
    proxyTo: url,
    externalUrl: url,
    routingGroup: 'adhoc',
    active: true,
    weight: 100,
    healthCheck: null,
    tls: null,
    origin: 'resource',
    ...more,
  };
}
