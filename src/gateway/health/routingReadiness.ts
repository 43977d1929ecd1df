import type { Clock } from '../../model/clock.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';

/** Time after which clusters without a verdict no longer keep the gateway from being ready. */
const GRACE_MS = 5_000;

/** Whether requests can be routed, and what is missing. */
export interface RoutingReadiness {
  readonly ready: boolean;
  /** Clusters that were never checked. */
  readonly unchecked: readonly string[];
}

/**
 * Makes the readiness check: a routing table is loaded and every cluster has a verdict, or 5 s have passed since it was
 * loaded (docs/rest-api.md#probes). Once ready it stays so.
 * @param isLoaded whether the table holds what was read from the resource source or the database, not only that it was made
 */
export function routingReadinessOf(
  table: RoutingTableHolder,
  clock: Clock,
  isLoaded: () => boolean,
): () => RoutingReadiness {
  let loadedAt: number | null = null;
  let wasReady = false;
  const look = (): void => {
    if (loadedAt === null && table.current.version > 0 && isLoaded()) loadedAt = clock.monotonic();
  };
  look();
  table.onChange(look);
  return () => {
    look();
    const unchecked = [...table.current.clusters.values()]
      .filter((cluster) => cluster.health.checkedAt === null)
      .map((cluster) => cluster.name);
    wasReady ||= loadedAt !== null && (unchecked.length === 0 || clock.monotonic() - loadedAt >= GRACE_MS);
    return { ready: wasReady, unchecked };
  };
}
