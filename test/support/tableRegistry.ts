import { GatewayError } from '../../src/model/errors.ts';
import type { RegistryCluster } from '../../src/model/registryCluster.ts';
import type { ClusterRegistry } from '../../src/operator/registry/clusterRegistry.ts';
import type { ResourceReference, WriteContext } from '../../src/operator/registry/resourceWrites.ts';
import type { RoutableCluster, RoutingTableHolder } from '../../src/routing/routingTable.ts';

/** A call of a registry write, as the API made it. */
export interface RegistryCall extends WriteContext {
  readonly operation: 'add' | 'update' | 'delete' | 'setActive';
  readonly name: string;
}

/**
 * A registry whose only source is a real routing table: for tests of the API's own work (parsing, answers, errors).
 * What a source, a projection or another field manager do is tested with the operator's registry.
 */
export class TableRegistry implements ClusterRegistry {
  /** Every write that was asked for. */
  readonly calls: RegistryCall[] = [];
  /** Makes writes answer that the database is unavailable. */
  pending = false;
  /** Makes the next write fail. */
  failure: unknown = null;
  readonly #table: RoutingTableHolder;

  constructor(table: RoutingTableHolder) {
    this.#table = table;
  }

  all(): readonly RegistryCluster[] {
    return [...this.#table.current.clusters.values()].map(shown);
  }

  get(name: string): RegistryCluster | null {
    const entry = this.#table.current.clusters.get(name);
    return entry === undefined ? null : shown(entry);
  }

  async add(cluster: RegistryCluster, context: WriteContext) {
    this.#note('add', cluster.name, context);
    if (this.get(cluster.name) !== null) {
      throw new GatewayError('EG_CONFLICT', `A cluster named ${cluster.name} exists.`, { field: 'name' });
    }
    return this.#put(cluster);
  }

  async update(cluster: RegistryCluster, context: WriteContext) {
    this.#note('update', cluster.name, context);
    return this.#put(cluster);
  }

  async delete(name: string, context: WriteContext) {
    this.#note('delete', name, context);
    this.#table.setInputs({ clusters: this.#others(name) });
    return { pending: this.pending, resource: reference(name) };
  }

  async setActive(name: string, active: boolean, context: WriteContext) {
    this.#note('setActive', name, context);
    const cluster = this.get(name);
    if (cluster === null) throw new GatewayError('EG_NOT_FOUND', `There is no cluster named ${name}.`);
    return this.#put({ ...cluster, active });
  }

  #note(operation: RegistryCall['operation'], name: string, context: WriteContext): void {
    this.calls.push({ operation, name, ...context });
    const { failure } = this;
    this.failure = null;
    if (failure !== null) throw failure;
  }

  #put(cluster: RegistryCluster) {
    const routable = { ...cluster, weight: 100, healthCheck: null, tls: null, origin: 'resource' } as const;
    this.#table.setInputs({ clusters: [...this.#others(cluster.name), routable] });
    return { cluster, pending: this.pending, resource: reference(cluster.name) };
  }

  #others(name: string): readonly RoutableCluster[] {
    return [...this.#table.current.clusters.values()].filter((cluster) => cluster.name !== name);
  }
}

/** The resource that such a cluster would have. */
function reference(name: string): ResourceReference {
  return { kind: 'EngineCluster', namespace: 'default', name, uid: `uid-of-${name}`, resourceVersion: '1' };
}

function shown({ name, proxyTo, active, routingGroup, externalUrl }: RegistryCluster): RegistryCluster {
  return { name, proxyTo, active, routingGroup, externalUrl };
}
