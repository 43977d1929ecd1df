import { Type } from 'typebox';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { QueryCounts } from '../../store/queryCounts.ts';
import type { IntervalRates, QueryRates } from '../../store/queryRates.ts';
import type { StoreContext } from '../apiContext.ts';
import { explainAll } from '../auth/endpointAccess.ts';
import { callerOf } from '../auth/guard.ts';
import { namesByUrl } from '../history.ts';
import { Overview, ProblemList, QuerySeries, RateSeries } from '../responses/overview.ts';
import { routes } from '../routes.ts';
import { iso, optionalTextField, reference } from '../schemas.ts';
import { ProblemWatch } from './problems.ts';

/** Longest range of the chart: the history that is kept by default, and some. */
const MAX_MINUTES = 31 * 24 * 60;

const range = {
  minutes: optionalTextField({
    pattern: '^[1-9][0-9]{0,4}$',
    description: `Minutes back from now, 1 to ${MAX_MINUTES}; 60 when absent.`,
  }),
};
const Range = Type.Object(range);
const LinesRange = Type.Object({
  ...range,
  lines: optionalTextField({
    pattern: '^[1-9][0-9]{0,3}$',
    description:
      'Clusters with a line of their own, those with most queries; the others are added up. All when absent.',
  }),
});

/** The dashboard's figures: the same as `/metrics`, and queries by cluster and time from the history. */
export function overviewRoutes(api: StoreContext): void {
  const { table, clock, keptHours, store } = api;
  const problems = new ProblemWatch(api);
  problems.start();
  api.app.addHook('onClose', async () => problems.stop());
  const route = routes(api, 'overview');
  const rangeOf = ({ minutes = '60' }: { readonly minutes?: string }) => ({
    ...{ now: clock.now(), minutes: Math.min(Number(minutes), MAX_MINUTES), keptHours },
  });

  route('GET', '/api/overview', {
    summary: 'The state of the gateway at a glance',
    description: 'Of the process that answers. Carries an ETag.',
    returns: ['The state.', reference(Overview)],
    hasTag: true,
    handle: () => overview(api),
  });

  route('GET', '/api/overview/queries', {
    summary: 'Queries by cluster and time',
    description: `Of all replicas. Intervals are a minute long; beyond ${MAX_INTERVALS} minutes as long as keeps a line at ${MAX_INTERVALS} of them. The last one is not over yet. Carries an ETag.`,
    query: LinesRange,
    returns: ['The queries.', QuerySeries],
    hasTag: true,
    errors: [503],
    handle: ({ query }) => {
      const lines = query.lines === undefined ? null : Number(query.lines);
      const { clusters } = table.current;
      return querySeries(store.queryCounts, namesByUrl(table.current), clusters.keys(), rangeOf(query), lines);
    },
  });

  route('GET', '/api/overview/rates', {
    summary: 'Rates, failures and durations of queries by time',
    description: `Of all replicas, by the time of submission. Intervals are a minute long; beyond ${MAX_RATE_INTERVALS} minutes as long as keeps ${MAX_RATE_INTERVALS} of them. The last one is not over yet. Carries an ETag.`,
    query: Range,
    returns: ['The rates.', RateSeries],
    hasTag: true,
    errors: [503],
    handle: ({ query }) => rateSeries(store.queryRates, rangeOf(query)),
  });

  route('GET', '/api/overview/problems', {
    summary: 'What is wrong now',
    description:
      'Clusters and rules as the process that answers knows them, queries and leadership of all replicas, and what the process lacks. Rules are named to callers who may list rules. Carries an ETag.',
    returns: ['The problems.', ProblemList],
    hasTag: true,
    handle: async ({ request }) => problems.problems(await callerOf(request).permits(explainAll)),
  });
}

async function overview({ metrics, table, version, readiness, startedAt }: StoreContext): Promise<Overview> {
  const values = async (name: string): Promise<readonly MetricValue[]> =>
    (await metrics.getSingleMetric(`engine_gateway_${name}`)?.get())?.values ?? [];
  const value = async (name: string) => sum(await values(name), ({ value: each }) => each);
  const sums = async <L extends string>(name: string, ...labels: readonly L[]) => sumsOf(await values(name), labels);
  const age = await value('resource_source_last_event_age_seconds');
  const depth = await values('history_depth');
  const waiting = (place: string): number => depth.find(({ labels }) => labels.place === place)?.value ?? 0;
  return {
    version,
    startedAt: new Date(startedAt).toISOString(),
    notReadyBecause: readiness.notReadyBecause(),
    components: await readiness.components(),
    leader: (await value('leader')) === 1,
    source: {
      available: (await value('resource_source_available')) === 1,
      lastEventAgeSeconds: age < 0 ? null : Math.floor(age / 10) * 10,
      problems: await value('resource_source_problems'),
    },
    clusters: { ...clusterFigures(table.current), inFlight: await value('cluster_requests_in_flight') },
    traffic: {
      submissions: await value('statement_submissions_total'),
      requests: await sums('requests_total', 'kind', 'status'),
      refusals: await sums('refusals_total', 'reason'),
      clusterErrors: await sums('cluster_errors_total', 'cluster', 'type'),
      retries: await sums('submission_retries_total', 'cluster'),
    },
    history: {
      memory: waiting('memory'),
      disk: waiting('disk'),
      written: await value('history_written_total'),
      lost: await value('history_lost_total'),
    },
  };
}

type CountedLabels<L extends string> = Readonly<Record<L, string>> & { readonly count: number };

/** A value of a counter or gauge as `/metrics` would show it now. */
interface MetricValue {
  readonly labels: Readonly<Partial<Record<string, string | number>>>;
  readonly value: number;
}

function sumsOf<L extends string>(values: readonly MetricValue[], labels: readonly L[]): CountedLabels<L>[] {
  const byLabels = new Map<string, CountedLabels<L>>();
  for (const { labels: own, value } of values) {
    const picked = Object.fromEntries(labels.map((label) => [label, String(own[label] ?? '')])) as Record<L, string>;
    const key = JSON.stringify(picked);
    byLabels.set(key, { ...picked, count: (byLabels.get(key)?.count ?? 0) + value });
  }
  return [...byLabels.values()].filter(({ count }) => count > 0).sort((a, b) => b.count - a.count);
}

function sum<T>(items: readonly T[], figureOf: (item: T) => number): number {
  return items.reduce((total, item) => total + figureOf(item), 0);
}

/** Totals of `engine_gateway_cluster_status`, `…_active` and `…_queries`. */
function clusterFigures(table: RoutingTable) {
  const clusters = [...table.clusters.values()];
  const active = clusters.filter((cluster) => cluster.active).length;
  const byStatus: Record<string, number> = {};
  for (const { health } of clusters) byStatus[health.status] = (byStatus[health.status] ?? 0) + 1;
  return {
    total: clusters.length,
    active,
    inactive: clusters.length - active,
    byStatus,
    queued: sum(clusters, ({ health }) => health.queued ?? 0),
    running: sum(clusters, ({ health }) => health.running ?? 0),
  };
}

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

/** Cuts a range into intervals of whole minutes, from an hour on of whole hours; the last one is not over yet. @param most intervals */
function seriesRange({ now, minutes, keptHours }: SeriesRange, most: number) {
  const unit = minutes > 60 * most ? 60 : 1;
  const intervalMs = MINUTE * unit * Math.ceil(minutes / unit / most);
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
