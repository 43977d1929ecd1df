import type { Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { BackendRow } from '../../store/store.ts';
import type { KindProgram, ProgramSettings, RoutingDraft } from '../kindProgram.ts';
import { type ClusterOutcome, clusterOutcomes, rowCluster } from './clusterOutcome.ts';

export class ClusterProgram implements KindProgram {
  readonly #settings: ProgramSettings;
  readonly #lastGood = new Map<string, RoutableCluster>();

  constructor(settings: ProgramSettings) {
    this.#settings = settings;
  }

  restore(resources: readonly Resource[], rows: readonly BackendRow[]): void {
    const byName = new Map(rows.map((row) => [row.name, row]));
    for (const resource of resources) {
      const { uid } = resource.metadata;
      const row = byName.get(registryNameOf(resource));
      if (row === undefined || this.#lastGood.has(uid)) continue;
      this.#lastGood.set(uid, { ...rowCluster(row), origin: 'resource', uid });
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, ClusterOutcome> {
    const { services, allowedServiceNamespaces, policy } = this.#settings;
    const outcomes = clusterOutcomes(resources, {
      services,
      allowedServiceNamespaces,
      policy,
      lastGood: this.#lastGood,
    });
    this.#remember(outcomes);
    draft.clusters = withRows(outcomes, draft.rows);
    return outcomes;
  }

  #remember(outcomes: ReadonlyMap<string, ClusterOutcome>): void {
    const live = new Set<string>();
    for (const { resource, routable } of outcomes.values()) {
      live.add(resource.metadata.uid);
      if (routable !== null) this.#lastGood.set(resource.metadata.uid, routable);
    }
    for (const uid of this.#lastGood.keys()) if (!live.has(uid)) this.#lastGood.delete(uid);
  }
}

function withRows(
  outcomes: ReadonlyMap<string, ClusterOutcome>,
  rows: readonly BackendRow[],
): readonly RoutableCluster[] {
  const routable = outcomes
    .values()
    .map((outcome) => outcome.routable)
    .filter((cluster) => cluster !== null)
    .toArray();
  const claimed = new Set(outcomes.values().map((outcome) => outcome.registryName));
  return [...routable, ...rows.filter((row) => !claimed.has(row.name)).map(rowCluster)];
}
