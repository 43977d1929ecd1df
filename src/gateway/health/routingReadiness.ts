import type { Clock } from '../../model/clock.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';

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
