import type { QueryCounts } from '../../store/queryCounts.ts';
import type { QuerySeries } from '../answers/overview.ts';

/** Most intervals of a line; a longer range has longer intervals. */
export const MAX_INTERVALS = 240;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/**
 * Counts the history's queries of the last minutes by cluster and interval.
 * @param names clusters by URL, for queries whose cluster was not kept
 */
export async function querySeries(
  counts: QueryCounts,
  names: ReadonlyMap<string, string>,
  { now, minutes }: { readonly now: number; readonly minutes: number },
): Promise<QuerySeries> {
  const intervalMs = MINUTE * Math.ceil(minutes / MAX_INTERVALS);
  // The interval that is running belongs to the range; as many before it as the range holds.
  const to = (Math.floor(now / intervalMs) + 1) * intervalMs;
  const length = Math.ceil((minutes * MINUTE) / intervalMs);
  const from = to - length * intervalMs;
  const lines = new Map<string, number[]>();
  // The clocks of other replicas may be ahead.
  const rows = await counts.perInterval({ from, to: to + HOUR, length: intervalMs });
  for (const { start, cluster, backendUrl, count } of rows) {
    const name = cluster ?? names.get(backendUrl) ?? backendUrl;
    const line = lines.get(name) ?? new Array<number>(length).fill(0);
    lines.set(name, line);
    const index = (start - from) / intervalMs;
    // Clocks of replicas differ: what is later than this one's interval counts to it.
    const slot = Math.min(index, length - 1);
    line[slot] = (line[slot] ?? 0) + count;
  }
  const clusters = [...lines].map(([cluster, line]) => ({
    cluster,
    total: line.reduce((sum, count) => sum + count, 0),
    counts: line,
  }));
  clusters.sort((a, b) => b.total - a.total || (a.cluster < b.cluster ? -1 : 1));
  const total = clusters.reduce((sum, line) => sum + line.total, 0);
  return { from, to, intervalMs, total, clusters };
}
