import type { QueryCounts } from '../../store/queryCounts.ts';
import type { QuerySeries } from '../answers/overview.ts';
import { colorOfName } from './clusterColors.ts';
import { type SeriesRange, seriesRange } from './seriesRange.ts';

/** Most intervals of a line; a longer range has longer intervals. */
export const MAX_INTERVALS = 240;

const HOUR = 60 * 60_000;

export interface SeriesRequest extends SeriesRange {
  /** Clusters with a line of their own, those with most queries; null: all. */
  readonly lines: number | null;
  /** `dataStore.queryHistoryHoursRetention` */
  readonly keptHours: number;
}

/**
 * Counts the history's queries of the last minutes by cluster and interval.
 * @param names clusters by URL, for queries whose cluster was not kept
 * @param colors of registered clusters
 */
export async function querySeries(
  counts: QueryCounts,
  names: ReadonlyMap<string, string>,
  colors: ReadonlyMap<string, number>,
  { now, minutes, lines, keptHours }: SeriesRequest,
): Promise<QuerySeries> {
  const { from, to, intervalMs, length } = seriesRange({ now, minutes }, MAX_INTERVALS);
  const byName = new Map<string, number[]>();
  // The clocks of other replicas may be ahead.
  const rows = await counts.perInterval({ from, to: to + HOUR, length: intervalMs });
  for (const { start, cluster, backendUrl, count } of rows) {
    const name = cluster ?? names.get(backendUrl) ?? backendUrl;
    const line = byName.get(name) ?? new Array<number>(length).fill(0);
    byName.set(name, line);
    const index = (start - from) / intervalMs;
    // Clocks of replicas differ: what is later than this one's interval counts to it.
    const slot = Math.min(index, length - 1);
    line[slot] = (line[slot] ?? 0) + count;
  }
  const all = [...byName].map(([cluster, line]) => ({
    cluster,
    color: colors.get(cluster) ?? colorOfName(cluster),
    total: line.reduce((sum, count) => sum + count, 0),
    counts: line,
  }));
  all.sort((a, b) => b.total - a.total || (a.cluster < b.cluster ? -1 : 1));
  const total = all.reduce((sum, line) => sum + line.total, 0);
  const drawn = lines ?? all.length;
  const others = all.length <= drawn ? null : new Array<number>(length).fill(0);
  const clusters = all.map((line, index) => {
    if (others === null || index < drawn) return line;
    for (const [slot, count] of line.counts.entries()) others[slot] = (others[slot] ?? 0) + count;
    return { ...line, counts: null };
  });
  return { asOf: new Date(now).toISOString(), from, to, intervalMs, keptHours, total, clusters, others };
}
