import { type ActiveOverride, specActive } from '../../kinds/engineCluster/activeOverride.ts';
import { type ClusterOutcome, isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
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
  /** A run-time override that is in force. */
  readonly override: ActiveOverride | null;
}

/** What an inventory is made of. */
export interface InventoryOptions {
  readonly source: Pick<ResourceSource, 'name' | 'get' | 'provenance'>;
  readonly controller: Pick<Controller, 'outcomes'>;
  readonly table: RoutingTableHolder;
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

function resourceOf(outcome: ClusterOutcome, source: InventoryOptions['source']): InventoryResource {
  const { resource, override } = outcome;
  return {
    ...declaredResource(outcome, source),
    specActive: specActive(resource),
    override: override.kind === 'inForce' ? override.override : null,
  };
}
