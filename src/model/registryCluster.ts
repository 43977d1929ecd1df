import { type Static, Type } from 'typebox';

/** A cluster as the registry's REST API shows it (spec.md: Cluster (backend)). */
export const RegistryCluster = Type.Object(
  {
    name: Type.String({ description: 'Identifier of the cluster; used in the activate and deactivate paths.' }),
    proxyTo: Type.String({ description: 'URL that requests are forwarded to.' }),
    active: Type.Boolean({ description: 'Whether the cluster takes new queries.' }),
    routingGroup: Type.String({ description: 'Group the cluster belongs to.' }),
    externalUrl: Type.String({ description: 'URL of the link for people; proxyTo unless it was set.' }),
  },
  { $id: 'RegistryCluster' },
);
export type RegistryCluster = Static<typeof RegistryCluster>;

/** Status of a cluster (spec.md: Cluster status values). */
export type ClusterHealth = 'PENDING' | 'HEALTHY' | 'UNHEALTHY';
