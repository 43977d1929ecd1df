import type { QueryCounts } from '../../store/queryCounts.ts';
import type { IntervalRates, QueryRates } from '../../store/queryRates.ts';
import type { QuerySeries, RateSeries } from '../answers/overview.ts';
import { iso } from '../schemas.ts';

/** Most intervals of a line, and of rates; a longer range has longer intervals. */
export const MAX_INTERVALS = 240;
export const MAX_RATE_INTERVALS = 60;
const MAX_ERRORS = 10;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A range that ends now. */
interface SeriesRange {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly minutes: number;
  /** `dataStore.queryHistoryHoursRetention` */
  readonly keptHours: number;
}

/** Cuts a range into intervals of whole minutes; the last one is not over yet. @param most intervals */
function seriesRange({ now, minutes, keptHours }: SeriesRange, most: number) {
  const intervalMs = MINUTE * Math.ceil(minutes / most);
  // The interval that is running belongs to the range; as many before it as the range holds.
  const to = (Math.floor(now / intervalMs) + 1) * intervalMs;
  const length = Math.ceil((minutes * MINUTE) / intervalMs);
  return { length, head: { asOf: iso(now), from: to - length * intervalMs, to, intervalMs, keptHours } };
}

/**
 * Counts the history's queries of the last minutes by cluster and interval.
 * @param names clusters by URL, for queries whose cluster was not kept
 * @param registered names of registered clusters
 * @param lines clusters with a separate line, those with most queries; null: all
 */
export async function querySeries(
  counts: QueryCounts,
  names: ReadonlyMap<string, string>,
  registered: Iterable<string>,
  range: SeriesRange,
  lines: number | null,
): Promise<QuerySeries> {
  const { length, head } = seriesRange(range, MAX_INTERVALS);
  const { from, to, intervalMs } = head;
  const colors = clusterColors(registered);
  const byName = new Map<string, number[]>();
  // The clocks of other replicas may be ahead.
  for (const row of await counts.perInterval({ from, to: to + HOUR, length: intervalMs })) {
    const name = row.cluster ?? names.get(row.backendUrl) ?? row.backendUrl;
    const line = byName.get(name) ?? new Array<number>(length).fill(0);
    byName.set(name, line);
    // Clocks of replicas differ: what is later than this one's interval counts to it.
    const slot = Math.min((row.start - from) / intervalMs, length - 1);
    line[slot] = (line[slot] ?? 0) + row.count;
  }
  const all = [...byName].map(([cluster, line]) => ({
    ...{ cluster, color: colors.get(cluster) ?? colorOfName(cluster), counts: line },
    total: line.reduce((sum, count) => sum + count, 0),
  }));
  all.sort((a, b) => b.total - a.total || (a.cluster < b.cluster ? -1 : 1));
  const drawn = lines ?? all.length;
  const rest = all.slice(drawn).map((line) => line.counts);
  const others = rest.length === 0 ? null : Array.from({ length }, (_, slot) => sumAt(rest, slot));
  const clusters = all.map((line, index) => (index < drawn ? line : { ...line, counts: null }));
  return { ...head, total: all.reduce((sum, line) => sum + line.total, 0), clusters, others };
}

function sumAt(lines: readonly (readonly number[])[], slot: number): number {
  return lines.reduce((sum, line) => sum + (line[slot] ?? 0), 0);
}

const unknown = { p50: null, p95: null };
const none = {
  ...{ queries: 0, ended: 0, failures: 0, userErrors: 0, refused: 0 },
  ...{ elapsedMillis: unknown, queuedMillis: unknown },
};

/** Rates and durations of the queries of the last minutes by interval, on all replicas. */
export async function rateSeries(rates: QueryRates, range: SeriesRange): Promise<RateSeries> {
  const { length, head } = seriesRange(range, MAX_RATE_INTERVALS);
  const { from, to, intervalMs } = head;
  const [rows, errors] = await Promise.all([
    rates.perInterval({ from, to, length: intervalMs }),
    rates.errors({ from, to, limit: MAX_ERRORS }),
  ]);
  const byStart = new Map<number, IntervalRates>(rows.map((row) => [row.start, row]));
  const intervals = Array.from({ length }, (_, index) => {
    const start = from + index * intervalMs;
    return { ...none, start, ...byStart.get(start) };
  });
  return { ...head, intervals, errors };
}

export const COLORS = 12;

/**
 * Numbers of the colours of clusters: each has that of its name's hash, or the next that fewer clusters have. Of up to {@link COLORS}
 * clusters each has another one.
 */
export function clusterColors(names: Iterable<string>): ReadonlyMap<string, number> {
  const uses = new Array<number>(COLORS).fill(0);
  const colors = new Map<string, number>();
  for (const name of [...names].sort()) {
    const round = Math.floor(colors.size / COLORS);
    let color = colorOfName(name);
    while ((uses[color] ?? 0) > round) color = (color + 1) % COLORS;
    uses[color] = (uses[color] ?? 0) + 1;
    colors.set(name, color);
  }
  return colors;
}

export function colorOfName(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193) >>> 0;
  }
  // The lower bits of names that differ at their end differ least.
  return ((hash ^ (hash >>> 15)) >>> 0) % COLORS;
}
