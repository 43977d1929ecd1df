import type { FastifyReply, FastifyRequest } from 'fastify';
import { engineCluster } from '../../kinds/engineCluster/kind.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import type { ClusterRegistry, RegistryWrite, WriteContext } from '../../operator/registry/clusterRegistry.ts';
import { AuditedWrites, type WriteFamily } from './writeFamily.ts';

/** Changes of the cluster registry by a family of REST calls. Rejects as the registry does. */
export class AuditedRegistry {
  readonly #registry: ClusterRegistry;
  readonly #writes: AuditedWrites;

  constructor(registry: ClusterRegistry, names: ProductNames, family: WriteFamily) {
    this.#registry = registry;
    this.#writes = new AuditedWrites(names, family);
  }

  store(operation: 'add' | 'update', request: FastifyRequest, reply: FastifyReply, cluster: RegistryCluster) {
    return this.#write(request, reply, cluster.name, (context) => this.#registry[operation](cluster, context));
  }

  /**
   * Lets a cluster take new queries, or keeps them away. Returns it as it is stored.
   * @param version EG_CONFLICT if the cluster was switched since; absent: any version
   */
  setActive(request: FastifyRequest, reply: FastifyReply, name: string, active: boolean, version?: string) {
    return this.#write(request, reply, name, (context) => this.#registry.setActive(name, active, context, version));
  }

  /** Deletes a cluster; an unknown name is neither an error nor a change. */
  async delete(request: FastifyRequest, reply: FastifyReply, name: string): Promise<void> {
    const write = (context: WriteContext) => this.#registry.delete(name, context);
    await this.#writes.make(request, reply, this.#clusterNamed(name), write, () => null);
  }

  async #write(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    write: (context: WriteContext) => Promise<RegistryWrite>,
  ): Promise<RegistryCluster> {
    const cluster = this.#clusterNamed(name);
    return (await this.#writes.make(request, reply, cluster, write, (written) => written.cluster)).cluster;
  }

  #clusterNamed(name: string) {
    return { object: `cluster ${name}`, kind: engineCluster.kind, name, before: this.#registry.get(name) };
  }
}
