import type { Clock } from '../../model/clock.ts';
import type { ClusterHealth } from '../../model/registryCluster.ts';
import type { ClusterEntry, RoutingTable, RoutingTableHolder } from '../../routing/routingTable.ts';

export interface ClusterChange {
  /** Wall clock, milliseconds since 1970. */
  readonly since: number;
  readonly status: ClusterHealth;
  /** Reason of the status, truncated to 300 characters. */
  readonly reason: string;
  /** False: it is deactivated. */
  readonly active: boolean;
}

interface ClusterHistory {
  readonly changes: readonly ClusterChange[];
  /** Monotonic time at which it was deactivated, or first seen so; null while it is active. */
  readonly offSince: number | null;
}

const MAX_CHANGES = 50;
const MAX_REASON = 300;

/**
 * The last changes of every registered cluster in this process: health checks, requests, and activation
 * (docs/health.md#what-a-replica-keeps). In memory, since the process started; removed with the cluster.
 */
export class ClusterChanges {
  readonly #clock: Clock;
  readonly #clusters = new Map<string, ClusterHistory>();

  constructor(table: RoutingTableHolder, clock: Clock) {
    this.#clock = clock;
    for (const cluster of table.current.clusters.values()) this.#note(cluster);
    table.onChange((next, before) => this.#follow(next, before));
  }

  /** The last changes of a cluster, newest first; empty if it is not registered. */
  of(cluster: string): readonly ClusterChange[] {
    return this.#clusters.get(cluster)?.changes ?? [];
  }

  /** Milliseconds since a cluster is known to be inactive; null if it is active, or not registered. */
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

/** Time after which clusters without a verdict no longer prevent readiness. */
const GRACE_MS = 5_000;

export interface RoutingReadiness {
  readonly ready: boolean;
  readonly unchecked: readonly string[];
}

/**
 * Returns the readiness check: a routing table is loaded and every cluster has a verdict, or 5 s have passed since then
 * (docs/rest-api.md#probes). Once ready it stays so.
 * @param isLoaded true if the table was read from the resource source or the database
 */
export function routingReadinessOf(
  table: RoutingTableHolder,
  clock: Clock,
  isLoaded: () => boolean,
): () => RoutingReadiness {
  let loadedAt: number | null = null;
  let wasReady = false;
  const check = (): void => {
    if (loadedAt === null && table.current.version > 0 && isLoaded()) loadedAt = clock.monotonic();
  };
  check();
  table.onChange(check);
  return () => {
    check();
    const unchecked = [...table.current.clusters.values()]
      .filter((cluster) => cluster.health.checkedAt === null)
      .map((cluster) => cluster.name);
    wasReady ||= loadedAt !== null && (unchecked.length === 0 || clock.monotonic() - loadedAt >= GRACE_MS);
    return { ready: wasReady, unchecked };
  };
}
