import {
  type ActiveOverride,
  activeAnnotation,
  type ClusterOutcome,
  clusterRejection,
  clusterSpecProblems,
  effectiveActive,
  isClusterOutcome,
  type OverrideState,
  overrideOf,
  specActive,
  withoutSlash,
} from '../../kinds/engineCluster/clusterOutcome.ts';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import {
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
  WEIGHT_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import type { RegistryCluster } from '../../model/registryCluster.ts';
import { ACTIVE_ANNOTATION, keyTextOf, type Resource, registryNameOf } from '../../model/resource.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { GrantRejection } from '../../rules/tenancy.ts';
import type { SourceName } from '../../store/store.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { HealthCredentials, SecretCredentials } from '../sources/kubernetes/referencedObjects.ts';
import type { ResourceChange, ResourceSource } from '../sources/source.ts';
import {
  ChangeCount,
  type DeclaredResource,
  declaredResource,
  digestOfJson,
  mustBeGranted,
  type ResourceReference,
  type ResourceWrites,
  type WriteContext,
} from './resourceWrites.ts';

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

export interface InventoryCluster {
  readonly name: string;
  /** `row`: a row of Trino Gateway, without a resource. */
  readonly origin: SourceName | 'row';
  /** The routed cluster; null: none, as its resource was never valid or its name is another's. */
  readonly routable: RoutableCluster | null;
  /** Null for a row. */
  readonly resource: InventoryResource | null;
}

export interface InventoryResource extends DeclaredResource {
  /** Declared value of the resource, regardless of overrides. */
  readonly specActive: boolean;
  readonly spec: Readonly<Record<string, unknown>>;
  /** Discovery and Service of a discovered cluster, or null. */
  readonly discovery: { readonly name: string; readonly service: string | null } | null;
  readonly override: ActiveOverride | null;
}

/** What REST calls use of the registry. */
export type ClusterRegistry = Pick<ResourceClusterRegistry, 'all' | 'get' | 'add' | 'update' | 'delete' | 'setActive'>;

/**
 * The registry behind the REST API (docs/resources.md#rest-writes, docs/compatibility.md#cluster-registry).
 * Writes go to the resource source, and resolve when the routing table and the database hold them. They reject with a
 * GatewayError: EG_CONFLICT (add of an existing name), EG_FIELD_OWNED, EG_NOT_FOUND ((de)activate), EG_READ_ONLY,
 * EG_API_WRITES_DISABLED, EG_SOURCE_UNAVAILABLE.
 */
export class ResourceClusterRegistry {
  readonly #writes: ResourceWrites;

  constructor(writes: ResourceWrites) {
    this.#writes = writes;
  }

  /** Every registered cluster in order of names, unmanaged rows included. */
  all(): readonly RegistryCluster[] {
    return [...this.#writes.table.current.clusters.values()].map(summary);
  }

  get(name: string): RegistryCluster | null {
    const entry = this.#writes.table.current.clusters.get(name);
    return entry === undefined ? null : summary(entry);
  }

  async add(cluster: RegistryCluster, { namespace }: WriteContext): Promise<RegistryWrite> {
    this.#writes.mayWrite('cannot add a cluster');
    if (this.#holder(cluster.name) !== null || this.get(cluster.name) !== null) {
      const message = `a cluster named ${cluster.name} already exists; use update to change it`;
      throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
    }
    return await this.#create(cluster, namespace);
  }

  async update(cluster: RegistryCluster, { force, namespace }: WriteContext): Promise<RegistryWrite> {
    this.#writes.mayWrite('cannot update a cluster');
    return await this.#writes.decide(async () => {
      const holder = this.#holder(cluster.name);
      if (holder === null) return await this.#create(cluster, namespace);
      const { resource } = holder;
      this.#writes.mustNotBeSuspended(resource);
      const change = clusterChange(resource, holder.routable, cluster);
      this.#mustBeAllowed(cluster, resource.metadata.namespace);
      if (change === null) return await this.#settle(resource, cluster.name);
      const fix = `change the template of the discovery, or set the annotations ${WEIGHT_ANNOTATION} and ${ACTIVE_ANNOTATION} of the Service; activate and deactivate work here`;
      mustNotBeDiscovered(holder, 'changed', fix);
      return await this.#settle(await this.#writes.apply(resource, change, force), cluster.name);
    });
  }

  async delete(name: string, _context: WriteContext): Promise<RegistryDeletion> {
    this.#writes.mayWrite('cannot delete a cluster');
    return await this.#writes.decide(async () => {
      const holder = this.#holder(name);
      if (holder === null) {
        if (this.get(name) !== null) await this.#writes.controller.deleteRow(name);
        return { pending: false, resource: null };
      }
      const { resource } = holder;
      this.#writes.mustNotBeSuspended(resource);
      mustNotBeDiscovered(holder, 'deleted', "take its labels from the Service, or narrow the discovery's selector");
      await this.#writes.remove(resource, false);
      this.#writes.controller.clusterDeleted(registryNameOf(resource));
      return await this.#writes.settle(resource);
    });
  }

  /**
   * @param version what `activationVersion` states of the cluster; EG_CONFLICT where it was switched since. Left out,
   * whatever it is
   */
  async setActive(name: string, active: boolean, context: WriteContext, version?: string): Promise<RegistryWrite> {
    this.#writes.mayWrite(active ? 'cannot activate a cluster' : 'cannot deactivate a cluster', true);
    return await this.#writes.decide(async () => {
      const holder = this.#holder(name);
      if (holder === null) return await this.#switchRow(name, active, version);
      const { resource } = holder;
      this.#writes.mustNotBeSuspended(resource);
      mustBeAsSwitched(name, effectiveActive(resource), overrideOf(resource), version);
      const at = new Date(this.#writes.clock.now()).toISOString();
      const annotation = activeAnnotation(resource, active, context.by, at);
      const annotations = annotation === undefined ? {} : { [ACTIVE_ANNOTATION]: annotation };
      const change = { set: {}, remove: [], annotations };
      return await this.#settle(await this.#writes.apply(resource, change, false), name);
    });
  }

  async #switchRow(name: string, active: boolean, version: string | undefined): Promise<RegistryWrite> {
    const row = this.get(name);
    if (row === null) throw new GatewayError('EG_NOT_FOUND', `there is no cluster named ${name}`, { field: 'name' });
    mustBeAsSwitched(name, row.active, { kind: 'none' }, version);
    // Nothing that is stored and then not accepted may keep a row from being switched: other gateways check neither names nor URLs.
    const isAllowed = this.#refusal(row, this.#writes.source.writeNamespace) === null;
    const canBeResource = isAllowed && clusterSpecProblems({ ...newClusterSpec(row, ''), name: row.name }).length === 0;
    if (canBeResource) return await this.#create({ ...row, active });
    if (!(await this.#writes.controller.switchRow(name, active)))
      throw new GatewayError('EG_CONFLICT', `the row of the cluster ${name} changed meanwhile; try again`);
    return { cluster: { ...row, active }, pending: false, resource: null };
  }

  async #create(cluster: RegistryCluster, namespace?: string): Promise<RegistryWrite> {
    const key = this.#writes.newKey(ENGINE_CLUSTER, cluster.name, namespace);
    this.#mustBeAllowed(cluster, key.namespace);
    const resource = await this.#writes.source.create({ ...key, spec: newClusterSpec(cluster, key.name) });
    return await this.#settle(resource, cluster.name);
  }

  /** Has own table and database follow a written resource. @returns the cluster as it is listed now */
  async #settle(resource: Resource, name: string): Promise<RegistryWrite> {
    this.#writes.controller.refreshNow();
    const outcome = this.#writes.controller.outcomes.get(keyTextOf(resource));
    const acceptance = outcome !== undefined && isClusterOutcome(outcome) ? outcome.acceptance : null;
    if (acceptance?.reason === 'NameConflict') {
      throw new GatewayError('EG_CONFLICT', acceptance.message, { field: 'name' });
    }
    const written = await this.#writes.settle(resource);
    const listed = this.get(name);
    if (listed !== null) return { ...written, cluster: listed };
    const why = acceptance?.message ?? 'it was deleted meanwhile';
    throw new GatewayError('EG_CONFLICT', `the cluster ${name} is stored but not routed: ${why}`);
  }

  #holder(name: string): ClusterOutcome | null {
    this.#writes.controller.refreshNow();
    return this.#writes.holder(name, isClusterOutcome);
  }

  /** Rejects what would be stored and then not accepted. */
  #mustBeAllowed(cluster: RegistryCluster, namespace: string): void {
    mustBeGranted(this.#refusal(cluster, namespace));
  }

  #refusal(cluster: RegistryCluster, namespace: string): GrantRejection | null {
    const { addresses, controller } = this.#writes;
    return clusterRejection(addresses, controller.tenancy, namespace, cluster);
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
 * A short text that changes whenever a user switches a cluster on or off, as far as that can be known: of a cluster
 * without an override, with `active` itself.
 */
export function activationVersion(
  active: boolean,
  override: Pick<Extract<OverrideState, { kind: 'inForce' }>['override'], 'active' | 'by' | 'at'> | null,
): string {
  return digestOfJson([active, override === null ? null : [override.active, override.by, override.at]]);
}

/** Rejects a switch that is meant for the cluster as it was switched before. */
function mustBeAsSwitched(name: string, active: boolean, state: OverrideState, version: string | undefined): void {
  const override = state.kind === 'inForce' ? state.override : null;
  if (version === undefined || version === activationVersion(active, override)) return;
  const by = override === null ? '' : ` by ${override.by}${override.at === null ? '' : ` since ${override.at}`}`;
  const message = `${name} was switched meanwhile: it is ${active ? 'on' : 'off'}${by}; nothing was changed`;
  throw new GatewayError('EG_CONFLICT', message, { field: 'version' });
}

function summary({ name, proxyTo, active, routingGroup, externalUrl }: RoutableCluster): RegistryCluster {
  return { name, proxyTo, active, routingGroup, externalUrl };
}

/** Spec of the resource of a cluster that has none. What states the default is left out. */
function newClusterSpec(cluster: RegistryCluster, resourceName: string): Resource['spec'] {
  const { name, proxyTo, externalUrl, active, routingGroup } = cluster;
  return {
    ...(name === resourceName ? {} : { name }),
    proxyTo,
    ...(externalUrl === proxyTo ? {} : { externalUrl }),
    ...{ active, routingGroup },
  };
}

/**
 * Changes of a REST update to a resource: only fields that differ from the listed ones, so that equal values are not
 * taken over from their owner. A changed `active` goes into the spec and ends an override. Pure.
 * @param routed the currently routed cluster, or null
 * @returns null if nothing changes
 */
export function clusterChange(
  resource: Resource,
  routed: RoutableCluster | null,
  target: RegistryCluster,
): ResourceChange | null {
  const { spec } = resource;
  const set: Record<string, unknown> = {};
  const remove: string[] = [];
  // A Service is listed with the URL it resolved to: sending that back changes nothing.
  const present = typeof spec.proxyTo === 'string' ? withoutSlash(spec.proxyTo) : (routed?.proxyTo ?? null);
  if (target.proxyTo !== present) {
    set.proxyTo = target.proxyTo;
    if (spec.serviceRef !== undefined) remove.push('serviceRef');
  }
  const external = typeof spec.externalUrl === 'string' ? withoutSlash(spec.externalUrl) : target.proxyTo;
  if (target.externalUrl !== external) set.externalUrl = target.externalUrl;
  if (target.routingGroup !== spec.routingGroup) set.routingGroup = target.routingGroup;
  // An override that states what is wanted stays: the spec may be another's, and would not be what it is listed as.
  const { kind } = overrideOf(resource);
  const asListed = target.active === effectiveActive(resource);
  if (!asListed && target.active !== specActive(resource)) set.active = target.active;
  const keepsAnnotation = kind === 'none' || (kind === 'inForce' && asListed);
  if (keepsAnnotation && Object.keys(set).length === 0) return null;
  return { set, remove, annotations: keepsAnnotation ? {} : { [ACTIVE_ANNOTATION]: null } };
}

/**
 * Credentials of a cluster's own Secret for health checks; null when it names none.
 * @param credentials reads Secrets; undefined without Kubernetes
 * @param proxyTo the URL that they would be sent to
 */
export async function clusterCredentials(
  { outcomes, tenancy }: Pick<Controller, 'outcomes' | 'tenancy'>,
  credentials: SecretCredentials | undefined,
  cluster: string,
  proxyTo: string,
): Promise<HealthCredentials | null> {
  const outcome = outcomes.values().find((each) => {
    return isClusterOutcome(each) && each.registryName === cluster && each.routable !== null;
  });
  if (outcome === undefined) return null;
  const { resource } = outcome;
  if (credentials !== undefined)
    return await credentials.of(
      resource,
      'healthCheck',
      proxyTo,
      tenancy.hostRejection(resource.metadata.namespace, proxyTo),
    );
  const check = resource.spec.healthCheck as { readonly credentialsSecretRef?: unknown } | undefined;
  if (check?.credentialsSecretRef === undefined) return null;
  const message = 'spec.healthCheck.credentialsSecretRef needs resources.source: kubernetes; use backendState instead';
  return { ok: false, reason: 'SecretUnsupported', message };
}

/** Every cluster there is in order of names: routed ones, and resources that are not (yet). */
export function clusterInventory({ source, controller, table }: ResourceWrites): readonly InventoryCluster[] {
  const clusters: InventoryCluster[] = [];
  for (const outcome of controller.outcomes.values()) {
    if (!isClusterOutcome(outcome)) continue;
    const { registryName, routable } = outcome;
    clusters.push({ name: registryName, origin: source.name, routable, resource: resourceOf(outcome, source) });
  }
  for (const entry of table.current.clusters.values()) {
    if (entry.origin === 'row') clusters.push({ name: entry.name, origin: 'row', routable: entry, resource: null });
  }
  return clusters.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** A number that grows whenever the inventory, or the health of its clusters, changes; counts of queries do not matter. */
export function clusterInventoryVersion({ source, controller, table }: ResourceWrites): () => number {
  const versions = new ChangeCount();
  return () => {
    const parts: unknown[] = [controller.outcomesOf(ENGINE_CLUSTER), source.changeCount(ENGINE_CLUSTER)];
    for (const { origin, name, active, proxyTo, externalUrl, routingGroup, health } of table.current.clusters.values())
      parts.push(origin, name, active, proxyTo, externalUrl, routingGroup, health.status, health.reason);
    return versions.of(parts);
  };
}

function resourceOf(outcome: ClusterOutcome, source: ResourceSource): InventoryResource {
  const { resource, override } = outcome;
  const owner = discoveryOwner(resource);
  return {
    ...declaredResource(outcome, source),
    specActive: specActive(resource),
    spec: resource.spec,
    discovery: owner === null ? null : { name: owner.name, service: owner.service },
    override: override.kind === 'inForce' ? override.override : null,
  };
}
