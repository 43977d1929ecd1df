import type { Clock } from '../../model/clock.ts';
import type { ClusterHealth } from '../../model/registryCluster.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';

/** A state that a cluster came into. */
export interface ClusterChange {
  /** Wall clock, milliseconds since 1970. */
  readonly since: number;
  readonly status: ClusterHealth;
  /** Why it has that status, cut after 300 characters. */
  readonly reason: string;
  /** False: it is switched off. */
  readonly active: boolean;
}

/** What is kept of a cluster. */
interface Kept {
  /** The newest first. */
  readonly changes: readonly ClusterChange[];
  /** Monotonic time at which it was switched off, or first known as such; null while it is active. */
  readonly offSince: number | null;
}

/** Changes that are kept of a cluster. */
const MAX_CHANGES = 50;
const MAX_REASON = 300;

/**
 * The last changes of every registered cluster, as this process saw them: its own health checks and requests, and switches of the
 * resources (docs/health.md#what-a-replica-keeps). In memory, since the process started; what is kept of a cluster goes with it.
 */
export class ClusterChanges {
  readonly #clock: Clock;
  readonly #clusters = new Map<string, Kept>();

  /** Follows a table from now on; the table lives as long as this. */
  constructor(table: RoutingTableHolder, clock: Clock) {
    this.#clock = clock;
    for (const cluster of table.current.clusters.values()) this.#note(cluster);
    table.onChange((next, before) => this.#follow(next, before));
  }

  /** The last changes of a cluster, the newest first; none where it is not registered. */
  of(cluster: string): readonly ClusterChange[] {
    return this.#clusters.get(cluster)?.changes ?? [];
  }

  /** For how long a cluster is known here as switched off, in milliseconds; null where it is active, or not registered. */
  offFor(cluster: string): number | null {
    const offSince = this.#clusters.get(cluster)?.offSince ?? null;
    return offSince === null ? null : this.#clock.monotonic() - offSince;
  }

  #follow({ clusters }: RoutingTable, before: RoutingTable): void {
    for (const cluster of clusters.values()) {
      if (before.clusters.get(cluster.name) !== cluster) this.#note(cluster);
    }
    if (this.#clusters.size === clusters.size) return;
    for (const name of this.#clusters.keys()) if (!clusters.has(name)) this.#clusters.delete(name);
  }

  #note({ name, active, health: { status, reason } }: ClusterEntry): void {
    const { changes = [], offSince = null } = this.#clusters.get(name) ?? {};
    const [last] = changes;
    if (last !== undefined && last.status === status && last.active === active) return;
    const change = { since: this.#clock.now(), status, reason: reason.slice(0, MAX_REASON), active };
    this.#clusters.set(name, {
      changes: [change, ...changes].slice(0, MAX_CHANGES),
      offSince: active ? null : (offSince ?? this.#clock.monotonic()),
    });
  }
}
