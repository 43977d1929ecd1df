import type { DeadReplica, SlotQuery, Takeover } from '../store/store.ts';

/**
 * What becomes of the slots of a replica that has ended, while its queries go on (docs/architecture.md#slots). Those that it
 * noted are counted by the heir. Those that it did not come to note are only known by their clients, who ask other replicas:
 * as many of its slots stay granted as such queries may use. All else is free.
 * @param isOf whether queries on a cluster may use slots of a counter
 */
export function takeOver(
  { slots, queries, over, followed }: DeadReplica,
  isOf: (cluster: string, key: string) => boolean,
): Takeover {
  const inherited = countByKey(queries);
  const noted = countByKey([...queries, ...over]);
  const left = new Map<string, number>();
  for (const { key, granted } of slots) {
    let count = 0;
    for (const [cluster, queriesThere] of followed) if (isOf(cluster, key)) count += queriesThere;
    const most = Math.min(granted - (noted.get(key) ?? 0), count);
    if (most > 0) left.set(key, most);
  }
  return { inherited, left };
}

function countByKey(queries: readonly SlotQuery[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { keys } of queries) for (const key of keys) counts.set(key, (counts.get(key) ?? 0) + 1);
  return counts;
}
