import type { FastifyInstance } from 'fastify';
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
import type { Readiness } from '../processReadiness.ts';
import { notModified, revalidate } from '../revalidation.ts';
import { answer, errorAnswers, reference } from '../schemas.ts';
import { namesByUrl } from '../webapp/historyRoutes.ts';
import { clusterColors } from './clusterColors.ts';
import { type MetricValue, metricTotal, metricValues } from './metricValues.ts';
import type { ProblemWatch } from './problemWatch.ts';
import { MAX_INTERVALS, querySeries } from './querySeries.ts';
import { MAX_RATE_INTERVALS, rateSeries } from './rateSeries.ts';

export interface OverviewRoutes {
  /** All metrics of the process: what the overview counts is read from there. */
  readonly metrics: Registry;
  readonly table: RoutingTableHolder;
  readonly readiness: Readiness;
  readonly counts: QueryCounts;
  readonly clock: Clock;
  /** Milliseconds since 1970 at which the process started. */
  readonly startedAt: number;
  readonly version: string;
  /** `dataStore.queryHistoryHoursRetention`, as it is now. */
  readonly keptHours: number;
  /** Null: `/api/overview/rates` is not served. */
  readonly rates: QueryRates | null;
  /** Null: `/api/overview/problems` is not served. */
  readonly problems: Pick<ProblemWatch, 'problems'> | null;
}

const tags = ['overview'];
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
const minutesOf = ({ minutes = '60' }: { readonly minutes?: string }) => Math.min(Number(minutes), MAX_MINUTES);

/** The dashboard's figures: the same as `/metrics`, and queries by cluster and time from the history. */
export async function overviewRoutes(app: FastifyInstance, options: OverviewRoutes): Promise<void> {
  const { counts, table, clock, keptHours, rates, problems } = options;
  revalidate(app);

  app.get(
    '/api/overview',
    {
      schema: {
        tags,
        summary: 'The state of the gateway at a glance',
        description: 'Of the process that answers. Carries an ETag.',
        response: { 200: answer('The state.', reference(Overview)), ...notModified },
      },
    },
    async (_request, reply) => reply.send(await overview(options)),
  );

  app.get<{ Querystring: { minutes?: string; lines?: string } }>(
    '/api/overview/queries',
    {
      schema: {
        tags,
        summary: 'Queries by cluster and time',
        description: `Of all replicas. Intervals are a minute long; beyond ${MAX_INTERVALS} minutes as long as keeps a line at ${MAX_INTERVALS} of them. The last one is not over yet. Carries an ETag.`,
        querystring: LinesRange,
        response: { 200: answer('The queries.', QuerySeries), ...notModified, ...errorAnswers(400, 503) },
      },
    },
    async (request, reply) => {
      const lines = request.query.lines === undefined ? null : Number(request.query.lines);
      const range = { now: clock.now(), minutes: minutesOf(request.query), lines, keptHours: keptHours };
      const colors = clusterColors(table.current.clusters.keys());
      return reply.send(await querySeries(counts, namesByUrl(table.current), colors, range));
    },
  );

  if (rates !== null) {
    app.get<{ Querystring: { minutes?: string } }>(
      '/api/overview/rates',
      {
        schema: {
          tags,
          summary: 'Rates, failures and durations of queries by time',
          description: `Of all replicas, by the time of submission. Intervals are a minute long; beyond ${MAX_RATE_INTERVALS} minutes as long as keeps ${MAX_RATE_INTERVALS} of them. The last one is not over yet. Carries an ETag.`,
          querystring: Range,
          response: { 200: answer('The rates.', RateSeries), ...notModified, ...errorAnswers(400, 503) },
        },
      },
      async (request, reply) => {
        const range = { now: clock.now(), minutes: minutesOf(request.query), keptHours: keptHours };
        return reply.send(await rateSeries(rates, range));
      },
    );
  }

  if (problems !== null) {
    app.get(
      '/api/overview/problems',
      {
        schema: {
          tags,
          summary: 'What is wrong now',
          description:
            'Clusters and rules as the process that answers knows them, queries and leadership of all replicas, and what the process lacks. Rules are named to callers who may list rules. Carries an ETag.',
          response: { 200: answer('The problems.', ProblemList), ...notModified },
        },
      },
      async (request, reply) => reply.send(await problems.problems(await callerOf(request).permits(explainAll))),
    );
  }
}

async function overview(options: OverviewRoutes): Promise<Overview> {
  const { metrics, table, readiness, startedAt, version } = options;
  const value = (name: string): Promise<number> => metricTotal(metrics, `engine_gateway_${name}`);
  const values = async <L extends string>(name: string, ...labels: readonly L[]) =>
    sums(await metricValues(metrics, `engine_gateway_${name}`), labels);
  const age = await value('resource_source_last_event_age_seconds');
  const depth = await metricValues(metrics, 'engine_gateway_history_depth');
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
      requests: await values('requests_total', 'kind', 'status'),
      refusals: await values('refusals_total', 'reason'),
      clusterErrors: await values('cluster_errors_total', 'cluster', 'type'),
      retries: await values('submission_retries_total', 'cluster'),
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

function sums<L extends string>(values: readonly MetricValue[], labels: readonly L[]): CountedLabels<L>[] {
  const byLabels = new Map<string, CountedLabels<L>>();
  for (const { labels: own, value } of values) {
    const picked = Object.fromEntries(labels.map((label) => [label, own[label] ?? ''])) as Record<L, string>;
    const key = JSON.stringify(picked);
    byLabels.set(key, { ...picked, count: (byLabels.get(key)?.count ?? 0) + value });
  }
  return [...byLabels.values()].filter(({ count: sum }) => sum > 0).sort((a, b) => b.count - a.count);
}

/** Totals of `engine_gateway_cluster_status`, `…_active` and `…_queries`. */
function clusterFigures(table: RoutingTable) {
  const clusters = [...table.clusters.values()];
  const active = clusters.filter((cluster) => cluster.active).length;
  const byStatus: Record<string, number> = {};
  for (const { health } of clusters) byStatus[health.status] = (byStatus[health.status] ?? 0) + 1;
  const sum = (field: 'queued' | 'running') => clusters.reduce((all, { health }) => all + (health[field] ?? 0), 0);
  return {
    total: clusters.length,
    active,
    inactive: clusters.length - active,
    byStatus,
    queued: sum('queued'),
    running: sum('running'),
  };
}
