import {
  type ActiveOverride,
  activeAnnotation,
  effectiveActive,
  overrideOf,
} from '../../kinds/engineCluster/activeOverride.ts';
import { type ClusterOutcome, isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import { type ClusterPolicy, type PolicyRefusal, policyRefusal } from '../../kinds/engineCluster/clusterPolicy.ts';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { clusterSpecProblems } from '../../kinds/engineCluster/validation.ts';
import {
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
  WEIGHT_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import { ACTIVE_ANNOTATION, keyOf, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Controller } from '../reconcile/controller.ts';
import { isEmptyChange } from '../sources/resourceChange.ts';
import { annotate, type ResourceSource } from '../sources/source.ts';
import { activationVersion } from './activationVersion.ts';
import { referenceTo } from './appliedChange.ts';
import type { ClusterRegistry, RegistryDeletion, RegistryWrite, WriteContext } from './clusterRegistry.ts';
import { newResourceKey } from './newResourceKey.ts';
import { clusterChange, newClusterSpec } from './registryChange.ts';
import { decideRepeatedly } from './repeatedDecision.ts';

/** `resources.apiWrites`. */
export type ApiWrites = 'enabled' | 'activation-only' | 'off';

export interface ResourceClusterRegistryOptions {
  readonly source: ResourceSource;
  readonly controller: Pick<
    Controller,
    'outcomes' | 'refreshNow' | 'whenStored' | 'clusterDeleted' | 'expectDeletion' | 'switchRow' | 'deleteRow'
  >;
  readonly table: RoutingTableHolder;
  readonly apiWrites: ApiWrites;
  /** Rights of the authors of clusters. */
  readonly policy: ClusterPolicy;
  readonly clock: Clock;
}

export class ResourceClusterRegistry implements ClusterRegistry {
  readonly #options: ResourceClusterRegistryOptions;

  constructor(options: ResourceClusterRegistryOptions) {
    this.#options = options;
  }

  all(): readonly RegistryCluster[] {
    return [...this.#options.table.current.clusters.values()].map(summary);
  }

  get(name: string): RegistryCluster | null {
    const entry = this.#options.table.current.clusters.get(name);
    return entry === undefined ? null : summary(entry);
  }

  async add(cluster: RegistryCluster, _context: WriteContext): Promise<RegistryWrite> {
    this.#mayWrite('add a cluster', false);
    if (this.#holder(cluster.name) !== null || this.get(cluster.name) !== null) {
      throw new GatewayError('EG_CONFLICT', `a cluster named ${cluster.name} already exists; use update to change it`, {
        field: 'name',
      });
    }
    return await this.#create(cluster);
  }

  async update(cluster: RegistryCluster, context: WriteContext): Promise<RegistryWrite> {
    this.#mayWrite('update a cluster', false);
    return await this.#decided(async () => {
      const holder = this.#holder(cluster.name);
      return holder === null ? await this.#create(cluster) : await this.#change(holder, cluster, context);
    });
  }

  async delete(name: string, _context: WriteContext): Promise<RegistryDeletion> {
    this.#mayWrite('delete a cluster', false);
    return await this.#decided(async () => {
      const holder = this.#holder(name);
      if (holder !== null) {
        this.#mustNotBePaused(holder);
        mustNotBeDiscovered(holder, 'deleted', "take its labels from the Service, or narrow the discovery's selector");
        return await this.#deleteResource(holder.resource);
      }
      if (this.get(name) !== null) await this.#options.controller.deleteRow(name);
      return { pending: false, resource: null };
    });
  }

  async setActive(name: string, active: boolean, context: WriteContext, version?: string): Promise<RegistryWrite> {
    this.#mayWrite(active ? 'activate a cluster' : 'deactivate a cluster', true);
    return await this.#decided(async () => {
      const holder = this.#holder(name);
      if (holder === null) {
        const row = this.get(name);
        if (row === null)
          throw new GatewayError('EG_NOT_FOUND', `there is no cluster named ${name}`, { field: 'name' });
        mustBeAsSwitched(name, row.active, null, version);
        // Nothing that is stored and then not accepted may keep a row from being switched.
        if (!this.#canBeResource(row)) return await this.#switchRow(row, active);
        return await this.#create({ ...row, active });
      }
      this.#mustNotBePaused(holder);
      const { resource } = holder;
      const override = overrideOf(resource);
      mustBeAsSwitched(
        name,
        effectiveActive(resource),
        override.kind === 'inForce' ? override.override : null,
        version,
      );
      const at = new Date(this.#options.clock.now()).toISOString();
      const annotation = activeAnnotation(resource, active, context.by, at);
      if (annotation === undefined) return await this.#settle(resource, name);
      const annotations = { [ACTIVE_ANNOTATION]: annotation };
      const { resourceVersion } = resource.metadata;
      return await this.#settle(
        await annotate(this.#options.source, keyOf(resource), annotations, resourceVersion),
        name,
      );
    });
  }

  async #change(holder: ClusterOutcome, wanted: RegistryCluster, { force }: WriteContext): Promise<RegistryWrite> {
    this.#mustNotBePaused(holder);
    const { resource } = holder;
    const change = clusterChange(resource, holder.routable, wanted);
    this.#mustBeAllowed(wanted, resource.metadata.namespace);
    if (isEmptyChange(change)) return await this.#settle(resource, wanted.name);
    const fix = `change the template of the discovery, or set the annotations ${WEIGHT_ANNOTATION} and ${ACTIVE_ANNOTATION} of the Service; activate and deactivate work here`;
    mustNotBeDiscovered(holder, 'changed', fix);
    const expectedVersion = resource.metadata.resourceVersion;
    const changed = await this.#options.source.apply(keyOf(resource), change, { force, expectedVersion });
    return await this.#settle(changed, wanted.name);
  }

  async #create(cluster: RegistryCluster): Promise<RegistryWrite> {
    const { source } = this.#options;
    this.#mustBeAllowed(cluster, source.writeNamespace);
    const key = newResourceKey(source, ENGINE_CLUSTER, cluster.name);
    const resource = await source.create({ ...key, spec: newClusterSpec(cluster, key.name) });
    return await this.#settle(resource, cluster.name);
  }

  async #deleteResource(resource: Resource): Promise<RegistryDeletion> {
    const key = keyOf(resource);
    const unexpect = this.#options.controller.expectDeletion(key);
    try {
      await this.#options.source.delete(key, null);
    } catch (error) {
      unexpect();
      throw error;
    }
    this.#options.controller.clusterDeleted(registryNameOf(resource));
    const outcome = await this.#options.controller.whenStored(resource);
    return { pending: outcome === 'pending', resource: referenceTo(resource) };
  }

  /** Has own table and database follow a written resource. @returns the cluster as it is listed now */
  async #settle(resource: Resource, name: string): Promise<RegistryWrite> {
    const { controller } = this.#options;
    controller.refreshNow();
    const outcome = controller.outcomes.get(keyTextOf(resource));
    const cluster = outcome !== undefined && isClusterOutcome(outcome) ? outcome : null;
    if (cluster?.acceptance.reason === 'NameConflict') {
      throw new GatewayError('EG_CONFLICT', cluster.acceptance.message, { field: 'name' });
    }
    const pending = (await controller.whenStored(resource)) === 'pending';
    const listed = this.get(name);
    if (listed !== null) return { cluster: listed, pending, resource: referenceTo(resource) };
    const why = cluster?.acceptance.message ?? 'it was deleted meanwhile';
    throw new GatewayError('EG_CONFLICT', `the cluster ${name} is stored but not routed: ${why}`);
  }

  async #decided<T>(decide: () => Promise<T>): Promise<T> {
    return await decideRepeatedly(decide, () => this.#options.controller.refreshNow());
  }

  #holder(name: string): ClusterOutcome | null {
    this.#options.controller.refreshNow();
    for (const outcome of this.#options.controller.outcomes.values()) {
      if (!isClusterOutcome(outcome) || outcome.registryName !== name) continue;
      if (outcome.acceptance.reason !== 'NameConflict') return outcome;
    }
    return null;
  }

  #mayWrite(what: string, activation: boolean): void {
    const mode = this.#options.apiWrites;
    if (mode === 'enabled' || (mode === 'activation-only' && activation)) return;
    throw new GatewayError('EG_API_WRITES_DISABLED', `cannot ${what} by REST: resources.apiWrites is ${mode}`);
  }

  /** True if a row makes a resource that is accepted: other gateways check neither names nor URLs. */
  #canBeResource(row: RegistryCluster): boolean {
    const isAllowed = this.#refusal(row, this.#options.source.writeNamespace) === null;
    return isAllowed && clusterSpecProblems({ ...newClusterSpec(row, ''), name: row.name }).length === 0;
  }

  async #switchRow(row: RegistryCluster, active: boolean): Promise<RegistryWrite> {
    const { name } = row;
    if (!(await this.#options.controller.switchRow(name, active)))
      throw new GatewayError('EG_CONFLICT', `the row of the cluster ${name} changed meanwhile; try again`);
    return { cluster: { ...row, active }, pending: false, resource: null };
  }

  /** Rejects what would be stored and then not accepted. */
  #mustBeAllowed(cluster: RegistryCluster, namespace: string): void {
    const refused = this.#refusal(cluster, namespace);
    if (refused === null) return;
    const { field, message } = refused;
    throw new GatewayError('EG_IMPOSSIBLE', `${field}${message}`, { field });
  }

  #refusal(cluster: RegistryCluster, namespace: string): PolicyRefusal | null {
    return policyRefusal(this.#options.policy, namespace, cluster);
  }

  #mustNotBePaused({ paused, resource }: ClusterOutcome): void {
    if (!paused) return;
    throw new GatewayError(
      'EG_CONFLICT',
      `${ENGINE_CLUSTER} ${resource.metadata.namespace}/${resource.metadata.name} is paused; remove its annotation enginegateway.dev/paused first`,
    );
  }
}

/**
 * Rejects a write that the discovery of a cluster would undo (docs/discovery.md#what-others-may-change).
 * @throws GatewayError EG_READ_ONLY saying what to do instead
 */
function mustNotBeDiscovered({ registryName, resource }: ClusterOutcome, what: string, fix: string): void {
  const owner = discoveryOwner(resource);
  if (owner === null) return;
  const service = owner.service === null ? '' : ` of the Service ${owner.service}`;
  const message = `${registryName} is made by the ${ENGINE_CLUSTER_DISCOVERY} ${resource.metadata.namespace}/${owner.name}${service} and cannot be ${what} by REST: ${fix}`;
  throw new GatewayError('EG_READ_ONLY', message);
}

/**
 * Rejects a switch that is meant for the cluster as it was switched before. @throws GatewayError EG_CONFLICT saying how
 * it is now
 */
function mustBeAsSwitched(
  name: string,
  active: boolean,
  override: ActiveOverride | null,
  version: string | undefined,
): void {
  if (version === undefined || version === activationVersion(active, override)) return;
  const by = override === null ? '' : ` by ${override.by}${override.at === null ? '' : ` since ${override.at}`}`;
  const message = `${name} was switched meanwhile: it is ${active ? 'on' : 'off'}${by}; nothing was changed`;
  throw new GatewayError('EG_CONFLICT', message, { field: 'version' });
}

function summary({ name, proxyTo, active, routingGroup, externalUrl }: RoutableCluster): RegistryCluster {
  return { name, proxyTo, active, routingGroup, externalUrl };
}
