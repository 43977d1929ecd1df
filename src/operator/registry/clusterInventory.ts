import { type ActiveOverride, specActive } from '../../kinds/engineCluster/activeOverride.ts';
import { type ClusterOutcome, isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { discoveryOwner } from '../../kinds/engineClusterDiscovery/spec.ts';
import { ChangeCount } from '../../model/changeCount.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { SourceName } from '../../store/store.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceSource } from '../sources/source.ts';
import { type DeclaredResource, declaredResource } from './resourceWrites.ts';

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

export interface InventoryOptions {
  readonly source: Pick<ResourceSource, 'name' | 'get' | 'provenance'>;
  readonly controller: Pick<Controller, 'outcomes'>;
  readonly table: RoutingTableHolder;
}

export interface InventoryVersionOptions extends InventoryOptions {
  readonly source: InventoryOptions['source'] & Pick<ResourceSource, 'changeCount'>;
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

/** A number that grows whenever the inventory, or the health of its clusters, changes; counts of queries do not matter. */
export function clusterInventoryVersion({ source, controller, table }: InventoryVersionOptions): () => number {
  const versions = new ChangeCount();
  return () => {
    const parts: unknown[] = [controller.outcomes, source.changeCount(ENGINE_CLUSTER)];
    for (const { origin, name, active, proxyTo, externalUrl, routingGroup, health } of table.current.clusters.values())
      parts.push(origin, name, active, proxyTo, externalUrl, routingGroup, health.status, health.reason);
    return versions.of(parts);
  };
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
