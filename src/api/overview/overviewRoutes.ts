import type { Registry } from 'prom-client';
import { Type } from 'typebox';
import type { Clock } from '../../model/clock.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { QueryCounts } from '../../store/queryCounts.ts';
import type { QueryRates } from '../../store/queryRates.ts';
import { Overview, ProblemList, QuerySeries, RateSeries } from '../answers/overview.ts';
import { explainAll } from '../auth/endpointAccess.ts';
import { callerOf } from '../auth/guard.ts';
import { namesByUrl } from '../history.ts';
import type { Readiness } from '../probes.ts';
import { type RouteContext, routes } from '../routes.ts';
import { reference } from '../schemas.ts';
import type { ProblemWatch } from './problemWatch.ts';
import { MAX_INTERVALS, MAX_RATE_INTERVALS, querySeries, rateSeries } from './series.ts';

export interface OverviewParts {
  readonly counts: QueryCounts;
  readonly clock: Clock;
  /** Milliseconds since 1970 at which the process started. */
  readonly startedAt: number;
  /** `dataStore.queryHistoryHoursRetention`. */
  readonly keptHours: number;
  /** Null: `/api/overview/rates` is not served. */
  readonly rates: QueryRates | null;
  /** Null: `/api/overview/problems` is not served. */
  readonly problems: Pick<ProblemWatch, 'problems'> | null;
}

interface OverviewContext extends RouteContext {
  /** All metrics of the process: what the overview counts is read from there. */
  readonly metrics: Registry;
  readonly table: RoutingTableHolder;
  readonly version: string;
}

/** Longest range of the chart: the history that is kept by default, and some. */
const MAX_MINUTES = 31 * 24 * 60;

const range = {
  minutes: Type.Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,4}$',
      description: `Minutes back from now, 1 to ${MAX_MINUTES}; 60 when absent.`,
    }),
  ),
};
const Range = Type.Object(range);
const LinesRange = Type.Object({
  ...range,
  lines: Type.Optional(
    Type.String({
      pattern: '^[1-9][0-9]{0,3}$',
      description:
        'Clusters with a line of their own, those with most queries; the others are added up. All when absent.',
    }),
  ),
});

/** The dashboard's figures: the same as `/metrics`, and queries by cluster and time from the history. */
export function overviewRoutes(
  api: OverviewContext,
  readiness: Readiness,
  { counts, clock, startedAt, keptHours, rates, problems }: OverviewParts,
): void {
  const { table } = api;
  const route = routes(api, 'overview');
  const rangeOf = ({ minutes = '60' }: { readonly minutes?: string }) => ({
    ...{ now: clock.now(), minutes: Math.min(Number(minutes), MAX_MINUTES), keptHours },
  });

  route('GET', '/api/overview', {
    summary: 'The state of the gateway at a glance',
    description: 'Of the process that answers. Carries an ETag.',
    returns: ['The state.', reference(Overview)],
    hasTag: true,
    handle: () => overview(api, readiness, startedAt),
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
      return querySeries(counts, namesByUrl(table.current), clusters.keys(), rangeOf(query), lines);
    },
  });

  if (rates !== null) {
    route('GET', '/api/overview/rates', {
      summary: 'Rates, failures and durations of queries by time',
      description: `Of all replicas, by the time of submission. Intervals are a minute long; beyond ${MAX_RATE_INTERVALS} minutes as long as keeps ${MAX_RATE_INTERVALS} of them. The last one is not over yet. Carries an ETag.`,
      query: Range,
      returns: ['The rates.', RateSeries],
      hasTag: true,
      errors: [503],
      handle: ({ query }) => rateSeries(rates, rangeOf(query)),
    });
  }

  if (problems !== null) {
    route('GET', '/api/overview/problems', {
      summary: 'What is wrong now',
      description:
        'Clusters and rules as the process that answers knows them, queries and leadership of all replicas, and what the process lacks. Rules are named to callers who may list rules. Carries an ETag.',
      returns: ['The problems.', ProblemList],
      hasTag: true,
      handle: async ({ request }) => problems.problems(await callerOf(request).permits(explainAll)),
    });
  }
}

async function overview(
  { metrics, table, version }: OverviewContext,
  readiness: Readiness,
  startedAt: number,
): Promise<Overview> {
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
