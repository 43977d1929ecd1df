import type { FastifyReply, FastifyRequest } from 'fastify';
import { engineCluster } from '../../kinds/engineCluster/kind.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import type { ClusterRegistry, RegistryWrite, WriteContext } from '../../operator/registry/clusterRegistry.ts';
import { recordChange } from '../auth/audit.ts';
import { reportPending, type WriteFamily, writeContext } from './writeFamily.ts';

const { kind } = engineCluster;

/**
 * The cluster registry as a family of REST calls changes it: every change that succeeds is in the audit with the cluster
 * before and after, and the answer reports what is not in the database yet. Rejects as the registry does.
 */
export class AuditedRegistry {
  readonly #registry: ClusterRegistry;
  readonly #names: ProductNames;
  readonly #family: WriteFamily;

  constructor(registry: ClusterRegistry, names: ProductNames, family: WriteFamily) {
    this.#registry = registry;
    this.#names = names;
    this.#family = family;
  }

  /** Adds a cluster, or replaces the one of its name. Returns it as it is stored. */
  store(
    operation: 'add' | 'update',
    request: FastifyRequest,
    reply: FastifyReply,
    cluster: RegistryCluster,
  ): Promise<RegistryCluster> {
    return this.#write(request, reply, cluster.name, (context) => this.#registry[operation](cluster, context));
  }

  /**
   * Lets a cluster take new queries, or keeps them away. Returns it as it is stored.
   * @param version as it is switched now, to be refused where it was switched since; left out, whatever it is
   */
  setActive(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    active: boolean,
    version?: string,
  ): Promise<RegistryCluster> {
    return this.#write(request, reply, name, (context) => this.#registry.setActive(name, active, context, version));
  }

  /** Deletes a cluster; an unknown name is no error, and no change. */
  async delete(request: FastifyRequest, reply: FastifyReply, name: string): Promise<void> {
    const before = this.#registry.get(name);
    const { pending, resource } = await this.#registry.delete(name, writeContext(request, this.#family));
    if (before !== null) {
      recordChange(request, {
        object: `cluster ${name}`,
        subject: { kind, name },
        regarding: resource,
        before,
        after: null,
      });
    }
    if (pending) reportPending(reply, this.#family, this.#names);
  }

  async #write(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    write: (context: WriteContext) => Promise<RegistryWrite>,
  ): Promise<RegistryCluster> {
    const before = this.#registry.get(name);
    const { cluster, pending, resource } = await write(writeContext(request, this.#family));
    recordChange(request, {
      object: `cluster ${name}`,
      subject: { kind, name },
      regarding: resource,
      before,
      after: cluster,
    });
    if (pending) reportPending(reply, this.#family, this.#names);
    return cluster;
  }
}
