import type { RegistryCluster } from '../../model/registryCluster.ts';
import type { ResourceReference } from './appliedChange.ts';

export interface RegistryDeletion {
  /** True when the database is unavailable and catches up later. */
  readonly pending: boolean;
  /** The resource that was written; null if it is missing. */
  readonly resource: ResourceReference | null;
}

/** Response of a registry write that leaves a cluster: as it is stored now. */
export interface RegistryWrite extends RegistryDeletion {
  readonly cluster: RegistryCluster;
}

/** Author and force flag of a change. */
export interface WriteContext {
  /** Name for the audit and for override annotations, e.g. `api` or a user. */
  readonly by: string;
  readonly force: boolean;
}

/**
 * The registry behind the REST API (docs/resources.md#rest-writes, docs/compatibility.md#cluster-registry).
 * Writes go to the resource source, and resolve when the routing table and the database hold them. They reject with a
 * GatewayError: EG_CONFLICT (add of an existing name), EG_FIELD_OWNED, EG_NOT_FOUND ((de)activate), EG_READ_ONLY,
 * EG_API_WRITES_DISABLED, EG_SOURCE_UNAVAILABLE.
 */
export interface ClusterRegistry {
  /** Every registered cluster in order of names, unmanaged rows included. */
  all(): readonly RegistryCluster[];
  get(name: string): RegistryCluster | null;
  add(cluster: RegistryCluster, context: WriteContext): Promise<RegistryWrite>;
  update(cluster: RegistryCluster, context: WriteContext): Promise<RegistryWrite>;
  delete(name: string, context: WriteContext): Promise<RegistryDeletion>;
  /**
   * @param version what `activationVersion` states of the cluster; EG_CONFLICT where it was switched since. Left out,
   * whatever it is
   */
  setActive(name: string, active: boolean, context: WriteContext, version?: string): Promise<RegistryWrite>;
}
