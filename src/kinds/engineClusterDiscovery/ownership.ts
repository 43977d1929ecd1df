import { API_GROUP_VERSION, type Resource } from '../../model/resource.ts';
import { ENGINE_CLUSTER_DISCOVERY, SERVICE_ANNOTATION } from './spec.ts';

/** Field manager of what discoveries write (Kubernetes: server-side apply). */
export const DISCOVERY_FIELD_MANAGER = 'engine-gateway-discovery';

export interface DiscoveryOwner {
  readonly name: string;
  readonly uid: string;
  /** `namespace/name` of the Service; null if a user took the annotation away. */
  readonly service: string | null;
}

/** The discovery that has made a cluster, by its owner references; null: a user declared it. */
export function discoveryOwner({ metadata }: Pick<Resource, 'metadata'>): DiscoveryOwner | null {
  const owner = metadata.ownerReferences?.find(
    ({ apiVersion, kind, controller }) =>
      controller === true && apiVersion === API_GROUP_VERSION && kind === ENGINE_CLUSTER_DISCOVERY,
  );
  if (owner === undefined) return null;
  return { name: owner.name, uid: owner.uid, service: metadata.annotations?.[SERVICE_ANNOTATION] ?? null };
}
