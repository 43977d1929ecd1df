import { type ActiveOverride, specActive } from '../../kinds/engineCluster/activeOverride.ts';
import { type ClusterOutcome, isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { discoveryOwner } from '../../kinds/engineClusterDiscovery/ownership.ts';
import { ChangeCount, MarkedChangeCount } from '../../model/changeCount.ts';
import { keyOf } from '../../model/resource.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { SourceName } from '../../store/store.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceSource } from '../sources/source.ts';
import { type DeclaredResource, declaredResource } from './declaredResource.ts';

/** A cluster with where it comes from, for people. */
export interface InventoryCluster {
  /** Registry name. */
  readonly name: string;
  /** `row`: a row of a gateway that ran before, without a resource. */
  readonly origin: SourceName | 'row';
  /** What is routed; null: nothing, as its resource was never valid or its name is another's. */
  readonly routable: RoutableCluster | null;
  /** Null for a row. */
  readonly resource: InventoryResource | null;
}

/** The resource of a cluster. */
export interface InventoryResource extends DeclaredResource {
  /** What the resource declares, whatever is in force. */
  readonly specActive: boolean;
  /** All of it, as it is written. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** What makes it of a Service; null: somebody declared it. */
  readonly discovery: { readonly name: string; readonly service: string | null } | null;
  /** A run-time override that is in force. */
  readonly override: ActiveOverride | null;
}

/** What an inventory is made of. */
export interface InventoryOptions {
  readonly source: Pick<ResourceSource, 'name' | 'get' | 'provenance'>;
  readonly controller: Pick<Controller, 'outcomes'>;
  readonly table: RoutingTableHolder;
}

/** What an inventory is made of, to see whether it is another one. */
export interface InventoryVersionOptions extends InventoryOptions {
  readonly source: Pick<ResourceSource, 'name' | 'get' | 'provenance' | 'changeCount'>;
}

/** Every cluster there is in order of names: routed ones, and resources that are not (yet). */
export function clusterInventory({ source, controller, table }: InventoryOptions): readonly InventoryCluster[] {
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

/** Numbers the states of an inventory. */
export class ClusterInventoryVersion {
  readonly #options: InventoryVersionOptions;
  readonly #hasCounts: boolean;
  readonly #versions = new ChangeCount();
  readonly #resourceVersions = new MarkedChangeCount();

  /** @param hasCounts whether the queries that clusters run and queue belong to it, which change all the time */
  constructor(options: InventoryVersionOptions, hasCounts: boolean) {
    this.#options = options;
    this.#hasCounts = hasCounts;
  }

  /** Grows whenever the inventory, or the health of its clusters, is another one. */
  get present(): number {
    const { source, controller, table } = this.#options;
    const ofResources = this.#resourceVersions.of([controller.outcomes, source.changeCount(ENGINE_CLUSTER)], () =>
      resourceParts(this.#options),
    );
    return this.#versions.of(inventoryParts(ofResources, table, this.#hasCounts));
  }
}

function* resourceParts({ source, controller }: InventoryVersionOptions): Iterable<unknown> {
  for (const outcome of controller.outcomes.values()) {
    if (!isClusterOutcome(outcome)) continue;
    const key = keyOf(outcome.resource);
    yield outcome;
    yield source.get(key);
    yield source.provenance(key)?.place;
  }
}

function* inventoryParts(ofResources: number, table: RoutingTableHolder, hasCounts: boolean): Iterable<unknown> {
  yield ofResources;
  for (const { origin, name, active, proxyTo, externalUrl, routingGroup, health } of table.current.clusters.values()) {
    yield* [name, active, origin, health.status, health.reason];
    if (hasCounts) yield* [health.queued, health.running, health.workers];
    if (origin === 'row') yield* [proxyTo, externalUrl, routingGroup];
  }
}

function resourceOf(outcome: ClusterOutcome, source: InventoryOptions['source']): InventoryResource {
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
