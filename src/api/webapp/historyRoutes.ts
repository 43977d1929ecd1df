import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Clock } from '../../model/clock.ts';
import { compileCheck } from '../../model/validation.ts';
import { isQueuedId } from '../../routing/queryId.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { QueryHistoryRepository } from '../../store/historyRepository.ts';
import type { QueryCount, QueryCounts } from '../../store/queryCounts.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { HistoryFilter, HistoryPage, QueryListRow } from '../../store/store.ts';
import type { Answer } from '../answers/answer.ts';
import { HistoryRow } from '../answers/history.ts';
import { visibleUser } from '../auth/guard.ts';
import { bodyIsOptional } from '../openapi.ts';
import { withoutNulls } from '../schemas.ts';
import { searchText } from '../searchText.ts';
import { bodyOf, type EnvelopeRoutes, envelopeErrors, failureAnswers, succeed, successAnswer } from './envelope.ts';

export interface HistoryRoutes extends EnvelopeRoutes {
  readonly history: QueryHistoryRepository;
  /** Queries that waited, by the gateway's own ids; null if none do. */
  readonly queued: Pick<QueuedQueryRepository, 'get'> | null;
  readonly counts: QueryCounts;
  readonly table: RoutingTableHolder;
  readonly clock: Clock;
  /** Milliseconds since 1970 at which the process started. */
  readonly startedAt: number;
}

const tags = ['web application: history'];
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Most points of a cluster's line; a longer time has longer intervals. */
const MAX_POINTS = 48 * 60;
/** Most rows of a page. */
export const MAX_PAGE = 2000;

const filterText = Type.Optional(Type.Union([Type.String({ maxLength: 1024 }), Type.Null()]));
const time = Type.Optional(
  Type.Union([Type.Integer({ minimum: 0, maximum: 253_402_300_800_000 }), Type.Null()], {
    description: 'Milliseconds since 1970.',
  }),
);
export const HistoryQuery = Type.Object({
  page: Type.Optional(
    Type.Union([Type.Integer({ maximum: 100_000_000 }), Type.Null()], { description: 'From 1; below counts as 1.' }),
  ),
  size: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: MAX_PAGE }), Type.Null()], {
      description: 'Rows of a page; 10 when absent.',
    }),
  ),
  user: filterText,
  externalUrl: filterText,
  backendUrl: filterText,
  routingGroup: filterText,
  queryId: filterText,
  source: filterText,
  cluster: filterText,
  text: filterText,
  from: time,
  to: time,
  after: Type.Optional(
    Type.Union(
      [
        Type.Object({
          captureTime: Type.Integer({ minimum: 0, maximum: 253_402_300_800_000 }),
          queryId: Type.String({ maxLength: 1024 }),
        }),
        Type.Null(),
      ],
      { description: 'A row of the page before: only rows after it are found, however deep that is.' },
    ),
  ),
});
const checkQuery = compileCheck(HistoryQuery);

export const HistoryRows = Type.Object({ total: Type.Integer(), rows: Type.Array(HistoryRow) });

const DistributionQuery = Type.Object({
  latestHour: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: 876_000 }), Type.Null()], {
      description: 'Hours back from now; 1 when absent.',
    }),
  ),
});
const checkDistribution = compileCheck(DistributionQuery);
const Share = Type.Object({ backendUrl: Type.String(), queryCount: Type.Integer(), name: Type.String() });
const Distribution = Type.Object({
  totalBackendCount: Type.Integer(),
  offlineBackendCount: Type.Integer({ description: 'Inactive clusters.' }),
  onlineBackendCount: Type.Integer({ description: 'Active clusters.' }),
  healthyBackendCount: Type.Integer(),
  unhealthyBackendCount: Type.Integer({ description: 'Clusters that are not HEALTHY.' }),
  totalQueryCount: Type.Integer(),
  averageQueryCountMinute: Type.Number(),
  averageQueryCountSecond: Type.Number(),
  distributionChart: Type.Array(Share),
  lineChart: Type.Record(Type.String(), Type.Array(Type.Object({ epochMillis: Type.Integer(), ...Share.properties }))),
  startTime: Type.String({ description: 'Start of the process, ISO 8601.' }),
});

/** History and its figures (docs/rest-api.md#calls-of-the-web-application). */
export async function historyRoutes(app: FastifyInstance, options: HistoryRoutes): Promise<void> {
  const { history, queued, counts, table, clock, startedAt } = options;
  envelopeErrors(app, options);

  app.post(
    '/webapp/findQueryHistory',
    {
      schema: {
        tags,
        summary: 'Finds queries of the history, newest first',
        description:
          'Filters match exactly, but for `text`, a part of the query in any letter case; an empty one is none. `queryId` finds a query that waited by the id that it waited under as well. Callers without ADMIN see their own queries. `total` is exact up to 100,000, and so far pages reach; `after` reaches all rows.',
        ...bodyIsOptional,
        body: HistoryQuery,
        response: {
          200: successAnswer('The page.', HistoryRows),
          ...failureAnswers(400, 413, 415, 503),
        },
      },
    },
    async (request, reply) => {
      const query = bodyOf(request, checkQuery);
      const user = await visibleUser(request);
      return succeed(
        reply,
        await historyPage(query, user === null ? {} : { visibleTo: user, user }, { history, queued }),
      );
    },
  );

  app.post(
    '/webapp/getDistribution',
    {
      schema: {
        tags,
        summary: 'Counts clusters, and queries by cluster and time',
        description: `Points are a minute apart; beyond ${MAX_POINTS / 60} hours as far as ${MAX_POINTS} points reach.`,
        ...bodyIsOptional,
        body: DistributionQuery,
        response: { 200: successAnswer('The figures.', Distribution), ...failureAnswers(400, 413, 415, 503) },
      },
    },
    async (request, reply) => {
      const { latestHour } = bodyOf(request, checkDistribution);
      const hours = latestHour ?? 1;
      const length = MINUTE * Math.max(1, Math.ceil((hours * 60) / MAX_POINTS));
      // The clocks of other replicas may be ahead.
      const range = { from: clock.now() - hours * HOUR, to: clock.now() + HOUR, length };
      const points = hours === 0 ? [] : await counts.perInterval(range);
      return succeed(reply, {
        ...clusterCounts(table.current),
        ...figures(points, hours, namesByUrl(table.current)),
        startTime: new Date(startedAt).toISOString(),
      });
    },
  );
}

export type HistorySearch = Pick<HistoryRoutes, 'history' | 'queued'>;

/**
 * A page of the history.
 * @param fixed what is filtered by whatever the query states
 */
export async function historyPage(
  query: Static<typeof HistoryQuery>,
  fixed: HistoryFilter,
  { history, queued }: HistorySearch,
): Promise<Answer<typeof HistoryRows>> {
  const limit = query.size ?? 10;
  const offset = (Math.max(1, query.page ?? 1) - 1) * limit;
  const filter = await idsOfClusters({ ...filterOf(query), ...fixed }, queued);
  const { total, records } = await history.find(filter, { offset, limit, ...afterOf(query) });
  return { total, rows: records.map(historyRow) };
}

export function historyRow(record: QueryListRow): HistoryRow {
  const { queryId, queryText, user, source, backendUrl, created, routingGroup, externalUrl } = record;
  const cluster = record.cluster === '' ? null : record.cluster;
  return withoutNulls({
    queryId,
    queryText,
    user,
    source,
    cluster,
    backendUrl,
    captureTime: created,
    routingGroup,
    externalUrl,
  });
}

/** Names of clusters by their URL; of several with one URL the first in order of names. */
export function namesByUrl(table: RoutingTable): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { name, proxyTo } of table.clusters.values()) if (!names.has(proxyTo)) names.set(proxyTo, name);
  return names;
}

/** A query that waited is in the history under the id that its cluster gave it. */
async function idsOfClusters(filter: HistoryFilter, queued: HistoryRoutes['queued']): Promise<HistoryFilter> {
  const { queryId } = filter;
  if (queued === null || queryId === undefined || !isQueuedId(queryId)) return filter;
  const row = await queued.get(queryId);
  return { ...filter, queryId: row?.engineId ?? queryId };
}

function afterOf({ after }: Static<typeof HistoryQuery>): Pick<HistoryPage, 'after'> {
  if (after === null || after === undefined) return {};
  return { after: { created: after.captureTime, queryId: searchText(after.queryId) } };
}

/** Only the known filters: an unknown field of the body may hold anything. */
function filterOf({
  user,
  externalUrl,
  backendUrl,
  routingGroup,
  queryId,
  source,
  cluster,
  text,
  from,
  to,
}: Static<typeof HistoryQuery>): HistoryFilter {
  const texts = Object.entries({ user, externalUrl, backendUrl, routingGroup, queryId, source, cluster, text })
    .filter(([, value]) => value !== null && value !== undefined && value !== '')
    .map(([field, value]) => [field, searchText(value ?? '')]);
  return {
    ...(Object.fromEntries(texts) as HistoryFilter),
    ...(from == null ? {} : { from }),
    ...(to == null ? {} : { to }),
  };
}

function clusterCounts(table: RoutingTable) {
  const clusters = [...table.clusters.values()];
  const active = clusters.filter((cluster) => cluster.active).length;
  const healthy = clusters.filter((cluster) => cluster.health.status === 'HEALTHY').length;
  return {
    totalBackendCount: clusters.length,
    offlineBackendCount: clusters.length - active,
    onlineBackendCount: active,
    healthyBackendCount: healthy,
    unhealthyBackendCount: clusters.length - healthy,
  };
}

/** Charts of the counts; a cluster that is gone goes by its URL. */
function figures(points: readonly QueryCount[], hours: number, names: ReadonlyMap<string, string>) {
  const shares = new Map<string, { backendUrl: string; queryCount: number; name: string }>();
  const lineChart: Record<string, object[]> = Object.create(null);
  for (const { start, cluster, backendUrl, count } of points) {
    const name = cluster ?? names.get(backendUrl) ?? backendUrl;
    const key = JSON.stringify([name, backendUrl]);
    shares.set(key, { backendUrl, queryCount: (shares.get(key)?.queryCount ?? 0) + count, name });
    lineChart[name] ??= [];
    lineChart[name].push({ epochMillis: start, backendUrl, queryCount: count, name });
  }
  const total = [...shares.values()].reduce((sum, { queryCount }) => sum + queryCount, 0);
  return {
    totalQueryCount: total,
    averageQueryCountMinute: hours === 0 ? 0 : total / (hours * 60),
    averageQueryCountSecond: hours === 0 ? 0 : total / (hours * 3600),
    distributionChart: [...shares.values()],
    lineChart,
  };
}
