import { noPolicy } from './admissionPolicy.ts';
import {
  type ClusterEntry,
  emptyTable,
  type HealthVerdict,
  neverChecked,
  type RoutableCluster,
  type RoutingInputs,
  type RoutingTable,
} from './routingTable.ts';

/** Called after a replacement, with the new table and the previous one. Must not throw. */
export type TableListener = (table: RoutingTable, before: RoutingTable) => void;

interface LastVerdict {
  readonly proxyTo: string;
  readonly health: HealthVerdict;
  readonly lastHealthyAt: number | undefined;
}

/**
 * Holds the current routing table. Readers take `current` once per request and keep it; writers replace it as a whole
 * (docs/architecture.md#the-way-of-the-data).
 */
export class RoutingTableHolder {
  #inputs: RoutingInputs = { clusters: [], rules: null, admission: noPolicy };
  readonly #verdicts = new Map<string, LastVerdict>();
  readonly #listeners = new Set<TableListener>();
  #table: RoutingTable = emptyTable;

  get current(): RoutingTable {
    return this.#table;
  }

  /**
   * Replaces clusters, rules or limits. Verdicts of clusters with unchanged name and address stay; others are reset.
   */
  setInputs(inputs: Partial<RoutingInputs>): void {
    this.#inputs = { ...this.#inputs, ...inputs };
    const addresses = new Map(this.#inputs.clusters.map(({ name, proxyTo }) => [name, proxyTo]));
    for (const [name, entry] of this.#verdicts) {
      if (addresses.get(name) !== entry.proxyTo) this.#verdicts.delete(name);
    }
    this.#replace();
  }

  /**
   * Sets the result of a check. Ignored if the cluster was removed or has another address by now, so that a late result
   * is never used for a changed cluster.
   */
  setHealth(name: string, proxyTo: string, verdict: HealthVerdict): void {
    const cluster = this.#table.clusters.get(name);
    if (cluster === undefined || cluster.proxyTo !== proxyTo) return;
    const lastHealthyAt =
      verdict.status === 'HEALTHY' ? (verdict.checkedAt ?? cluster.lastHealthyAt) : cluster.lastHealthyAt;
    this.#verdicts.set(name, { proxyTo, health: verdict, lastHealthyAt });
    // Only this entry is replaced: checks of hundreds of clusters replace the table many times a second.
    const entry: ClusterEntry = { ...cluster, health: verdict, lastHealthyAt };
    const { routingGroup } = cluster;
    const members = this.#table.groups.get(routingGroup) ?? [];
    this.#publish(
      new Map(this.#table.clusters).set(name, entry),
      new Map(this.#table.groups).set(
        routingGroup,
        members.map((member) => (member === cluster ? entry : member)),
      ),
    );
  }

  onChange(listener: TableListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #replace(): void {
    const entries = this.#inputs.clusters
      .map((cluster) => this.#entry(cluster))
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    const groups = new Map<string, ClusterEntry[]>();
    for (const entry of entries) {
      const members = groups.get(entry.routingGroup);
      if (members === undefined) groups.set(entry.routingGroup, [entry]);
      else members.push(entry);
    }
    this.#publish(new Map(entries.map((entry) => [entry.name, entry])), groups);
  }

  #publish(clusters: RoutingTable['clusters'], groups: RoutingTable['groups']): void {
    const before = this.#table;
    const { rules, admission } = this.#inputs;
    this.#table = { version: before.version + 1, clusters, groups, rules, admission };
    for (const listener of this.#listeners) listener(this.#table, before);
  }

  #entry(cluster: RoutableCluster): ClusterEntry {
    const last = this.#verdicts.get(cluster.name);
    return { ...cluster, health: last?.health ?? neverChecked, lastHealthyAt: last?.lastHealthyAt };
  }
}
