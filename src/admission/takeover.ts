import type { DeadReplica, SlotQuery, Takeover } from '../store/store.ts';

/**
 * Handles the slots of a dead replica while its queries continue (docs/architecture.md#slots). Recorded queries are
 * counted by their successor. Unrecorded queries are only known by their clients, who contact other replicas: slots
 * that such queries may use stay granted. All others are free.
 * @param isOf true if queries on a cluster may use slots of a counter
 */
export function adoptSlots(
  { slots, queries, over, followed }: DeadReplica,
  isOf: (cluster: string, key: string) => boolean,
): Takeover {
  const adopted = countByKey(queries);
  const noted = countByKey([...queries, ...over]);
  const left = new Map<string, number>();
  for (const { key, granted } of slots) {
    let count = 0;
    for (const [cluster, queriesThere] of followed) if (isOf(cluster, key)) count += queriesThere;
    const most = Math.min(granted - (noted.get(key) ?? 0), count);
    if (most > 0) left.set(key, most);
  }
  return { adopted, left };
}

function countByKey(queries: readonly SlotQuery[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { keys } of queries) for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}
