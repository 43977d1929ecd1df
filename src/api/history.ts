import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import type { RoutingTable } from '../routing/routingTable.ts';
import { isQueuedId } from '../routing/statementProtocol.ts';
import type { QueryCount } from '../store/queryCounts.ts';
import type { HistoryFilter, QueryListRow, Store } from '../store/store.ts';
import type { StoreContext } from './apiContext.ts';
import { visibleFilter } from './auth/guard.ts';
import { HistoryRow, SearchRow } from './responses/queries.ts';
import { checkedBody, ofNamespaces, routes, searchText } from './routes.ts';
import { integerField, iso, nullable, objectOrNull, type ResponseBody, textField, withoutNulls } from './schemas.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** Most points of a cluster's line; a longer time has longer intervals. */
const MAX_POINTS = 48 * 60;
/** Most rows of a page. */
const MAX_PAGE = 2000;

const filterText = Type.Optional(nullable(Type.String({ maxLength: 1024 })));
const Millis = Type.Integer({ minimum: 0, maximum: 253_402_300_800_000 });
const time = Type.Optional(nullable(Millis, 'Milliseconds since 1970.'));
const texts = {
  user: filterText,
  externalUrl: filterText,
  backendUrl: filterText,
  routingGroup: filterText,
  queryId: filterText,
  source: filterText,
  cluster: filterText,
  text: filterText,
};
const HistoryQuery = Type.Object({
  page: Type.Optional(nullable(Type.Integer({ maximum: 100_000_000 }), 'From 1; below counts as 1.')),
  size: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: MAX_PAGE }), 'Rows of a page; 10 when absent.')),
  ...texts,
  from: time,
  to: time,
  after: Type.Optional(
    objectOrNull('A row of the page before: only rows after it are found, however deep that is.', {
      captureTime: Millis,
      queryId: Type.String({ maxLength: 1024 }),
    }),
  ),
});
const HistoryRows = Type.Object({ total: Type.Integer(), rows: Type.Array(HistoryRow) });
const SearchQuery = Type.Object({
  ...HistoryQuery.properties,
  match: Type.Optional(
    Type.Union([Type.Literal('exact'), Type.Literal('prefix')], {
      description:
        'prefix: of user, routingGroup, queryId, source and cluster the beginning is enough. exact when absent.',
    }),
  ),
});
const SearchPage = Type.Object({ total: Type.Integer(), rows: Type.Array(SearchRow) });

const DistributionQuery = Type.Object({
  latestHour: Type.Optional(
    nullable(Type.Integer({ minimum: 0, maximum: 876_000 }), 'Hours back from now; 1 when absent.'),
  ),
});
const Share = Type.Object({ backendUrl: Type.String(), queryCount: Type.Integer(), name: Type.String() });
const Distribution = Type.Object({
  totalBackendCount: Type.Integer(),
  offlineBackendCount: integerField('Inactive clusters.'),
  onlineBackendCount: integerField('Active clusters.'),
  healthyBackendCount: Type.Integer(),
  unhealthyBackendCount: integerField('Clusters that are not HEALTHY.'),
  totalQueryCount: Type.Integer(),
  averageQueryCountMinute: Type.Number(),
  averageQueryCountSecond: Type.Number(),
  distributionChart: Type.Array(Share),
  lineChart: Type.Record(Type.String(), Type.Array(Type.Object({ epochMillis: Type.Integer(), ...Share.properties }))),
  startTime: textField('Start of the process, ISO 8601.'),
});

/** The history for the web application, and its figures (docs/rest-api.md#calls-of-the-web-application). */
export function historyRoutes(api: StoreContext): void {
  const { table, store, clock, startedAt } = api;
  const route = routes(api, 'web application: history', 'envelope');

  route('POST', '/webapp/findQueryHistory', {
    summary: 'Finds queries of the history, newest first',
    description:
      'Filters match exactly, but for `text`, a part of the query in any letter case; an empty one is none. `queryId` finds a query that waited by the id that it waited under as well. Callers without ADMIN see their own queries. `total` is exact up to 100,000, and so far pages reach; `after` reaches all rows.',
    body: { ...checkedBody(HistoryQuery), isOptional: true },
    returns: ['The page.', HistoryRows],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, body }) => historyPage(body, await visibleFilter(request, api), store),
  });

  route('POST', '/webapp/getDistribution', {
    summary: 'Counts clusters, and queries by cluster and time',
    description: `Points are a minute apart; beyond ${MAX_POINTS / 60} hours as far as ${MAX_POINTS} points reach.`,
    body: { ...checkedBody(DistributionQuery), isOptional: true },
    returns: ['The figures.', Distribution],
    errors: [503],
    handle: async ({ body }) => {
      const hours = body.latestHour ?? 1;
      const length = MINUTE * Math.max(1, Math.ceil((hours * 60) / MAX_POINTS));
      // The clocks of other replicas may be ahead.
      const range = { from: clock.now() - hours * HOUR, to: clock.now() + HOUR, length };
      const points = hours === 0 ? [] : await store.queryCounts.perInterval(range);
      const ofQueries = figures(points, hours, namesByUrl(table.current));
      return { ...clusterCounts(table.current), ...ofQueries, startTime: iso(startedAt) };
    },
  });
}

/** The search of the history for everybody: users find their own queries (docs/rest-api.md#routing-explained). */
export function searchRoutes(api: StoreContext): void {
  routes(api, 'routing')('POST', '/api/history/search', {
    summary: 'Finds queries of the history, newest first',
    description:
      'Body and answer are those of `/webapp/findQueryHistory`, with `match` and how each query ended, where that is known. Callers without ADMIN see their own queries.',
    body: checkedBody(SearchQuery),
    returns: ['The page.', SearchPage],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, body: { match = 'exact', ...query } }) => {
      const fixed = { match, ...(await visibleFilter(request, api)) };
      const { total, rows } = await historyPage(query, fixed, api.store);
      const ends = await api.store.queryList.ends(rows.map(({ queryId }) => queryId));
      return { total, rows: rows.map((row): SearchRow => ({ ...row, ...withoutNulls(ends.get(row.queryId) ?? {}) })) };
    },
  });
}

/** The JSON views of the history under the gateway's own path (docs/compatibility.md#views-health-and-metrics). */
export function viewRoutes(api: StoreContext): void {
  const base = `${api.names.gatewayPath}/api`;
  const route = routes(api, 'views');
  const newest = async (request: FastifyRequest) =>
    (await api.store.history.find(await visibleFilter(request, api), { offset: 0, limit: MAX_PAGE })).records;

  route('GET', `${base}/queryHistory`, {
    summary: `The newest ${MAX_PAGE} queries`,
    description: 'Callers without ADMIN see their own.',
    returns: ['The queries, newest first.', Type.Array(HistoryRow)],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request }) => (await newest(request)).map(historyRow),
  });

  route('GET', `${base}/queryHistoryDistribution`, {
    summary: `The newest ${MAX_PAGE} queries by cluster`,
    description: 'Callers without ADMIN see their own.',
    returns: ['Counts by name; a cluster that is gone goes by its URL.', Type.Record(Type.String(), Type.Integer())],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request }) => {
      const clusters = namesByUrl(api.table.current);
      const queries = await newest(request);
      const byName = Map.groupBy(queries, ({ backendUrl }) => clusters.get(backendUrl) ?? backendUrl);
      return Object.fromEntries([...byName].map(([name, own]) => [name, own.length]));
    },
  });
}

/**
 * A page of the history.
 * @param fixed what is filtered by whatever the query states
 */
async function historyPage(
  query: Static<typeof HistoryQuery>,
  fixed: HistoryFilter,
  { history, queuedQueries }: Store,
): Promise<ResponseBody<typeof HistoryRows>> {
  const limit = query.size ?? 10;
  const offset = (Math.max(1, query.page ?? 1) - 1) * limit;
  const filter = await idsOfClusters({ ...filterOf(query), ...fixed }, queuedQueries);
  const { after } = query;
  const place = after == null ? {} : { after: { created: after.captureTime, queryId: searchText(after.queryId) } };
  const { total, records } = await history.find(filter, { offset, limit, ...place });
  return { total, rows: records.map(historyRow) };
}

function historyRow(record: QueryListRow): HistoryRow {
  const { queryId, queryText, user, source, backendUrl, created, routingGroup, externalUrl } = record;
  const cluster = record.cluster === '' ? null : record.cluster;
  const row = { queryId, queryText, user, source, cluster, backendUrl, captureTime: created };
  return withoutNulls({ ...row, routingGroup, externalUrl });
}

/** Names of clusters by their URL; of several with one URL the first in order of names. */
export function namesByUrl(table: RoutingTable): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const { name, proxyTo } of table.clusters.values()) if (!names.has(proxyTo)) names.set(proxyTo, name);
  return names;
}

/** A query that waited is in the history under the id that its cluster gave it. */
async function idsOfClusters(filter: HistoryFilter, queued: Store['queuedQueries']): Promise<HistoryFilter> {
  const { queryId } = filter;
  if (queryId === undefined || !isQueuedId(queryId)) return filter;
  return { ...filter, queryId: (await queued.get(queryId))?.engineId ?? queryId };
}

/** Only the known filters: an unknown field of the body may hold anything. */
function filterOf(query: Static<typeof HistoryQuery>): HistoryFilter {
  const own = (Object.keys(texts) as (keyof typeof texts)[]).flatMap((field) =>
    query[field] ? [[field, searchText(query[field])] as const] : [],
  );
  return {
    ...(Object.fromEntries(own) as HistoryFilter),
    ...(query.from == null ? {} : { from: query.from }),
    ...(query.to == null ? {} : { to: query.to }),
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
