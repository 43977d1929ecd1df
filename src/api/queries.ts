import { Readable } from 'node:stream';
import { type Static, Type } from 'typebox';
import { queuePlaces } from '../gateway/admission/queuePlaces.ts';
import { GatewayError } from '../model/errors.ts';
import { isQueuedId } from '../routing/statementProtocol.ts';
import type { StoredDecision } from '../routing/storedDecision.ts';
import type { ListedOutcome, QueryList, QueryListFilter } from '../store/queryList.ts';
import { type QueryState, queryStates } from '../store/queryOutcome.ts';
import { type StatisticsDimension, statisticsDimensions } from '../store/statisticsDimension.ts';
import type { QueryRecord, QueuedQueryRow } from '../store/store.ts';
import type { StoreContext } from './apiContext.ts';
import { type Caller, queryUserOf } from './auth/endpointAccess.ts';
import { callerOf, isVisible, visibleFilter, visibleQueries } from './auth/guard.ts';
import {
  LISTED_TEXT,
  ListedQuery,
  type QueryOutcome,
  QueryPage,
  QueueList,
  queryRow,
  RunningQueryList,
  Statistics,
} from './responses/queries.ts';
import { type Call, notFound, ofNamespaces, routes, searchText } from './routes.ts';
import { iso, oneOf, optionalTextField } from './schemas.ts';

const HOUR = 3_600_000;
const MAX_PAGE = 1000;
const DEFAULT_PAGE = 50;
const MAX_VALUES = 100;
const MAX_EXPORTED = 100_000;
/** Queries that an export reads at a time, and characters of their statements. */
const CHUNK = 500;
const EXPORTED_TEXT = 10_000;

const text = (description: string) => Type.Optional(Type.String({ maxLength: 1024, description }));
const number = (description: string) => Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$', description }));
const texts = {
  user: text('Exactly; callers without ADMIN see their own in any case.'),
  source: text('Exactly.'),
  cluster: text('Registry name.'),
  routingGroup: text('Exactly.'),
  userGroup: text('A group of the user, exactly; the first 32 of each query are kept.'),
  queryId: text('Id that its cluster, or its refusal, gave it.'),
  text: text('Part of the statement, letter case aside.'),
  errorName: text('SYNTAX_ERROR'),
  errorType: text('USER_ERROR'),
  digest: optionalTextField({ pattern: '^[0-9a-f]{16}$', description: 'Digest of the shape of the statement.' }),
};
const state = queryStates.join('|');
const filters = {
  ...texts,
  match: Type.Optional(
    oneOf(
      ['exact', 'prefix'],
      'prefix: of user, source, cluster, routingGroup and queryId the beginning is enough. exact when absent.',
    ),
  ),
  from: number('Milliseconds since 1970, inclusive.'),
  to: number('Milliseconds since 1970, exclusive.'),
  state: optionalTextField({
    pattern: `^(${state})(,(${state}))*$`,
    description: 'How it ended; several with commas: `FAILED,LOST`.',
  }),
  minElapsedMillis: number('Shortest duration.'),
  maxElapsedMillis: number('Longest duration.'),
};
const Filter = Type.Object(filters);
const ListQuery = Type.Object({
  ...filters,
  limit: optionalTextField({
    pattern: '^[0-9]{1,4}$',
    description: `Rows, up to ${MAX_PAGE}; ${DEFAULT_PAGE} when absent.`,
  }),
  after: Type.Optional(Type.String({ maxLength: 1024, description: '`next` of the page before.' })),
});
const ExportQuery = Type.Object({
  ...filters,
  format: Type.Optional(Type.Union([Type.Literal('csv'), Type.Literal('json')], { description: 'csv when absent.' })),
});
const StatisticsQuery = Type.Object({
  by: Type.Optional(
    oneOf<StatisticsDimension>(statisticsDimensions, 'What queries are counted by; cluster when absent.'),
  ),
  from: number('Milliseconds since 1970, inclusive; an hour ago when absent.'),
  to: number('Milliseconds since 1970, exclusive; now when absent.'),
  cluster: text('Only queries of this cluster, by its registry name.'),
  routingGroup: text('Only queries of this routing group.'),
  limit: Type.Optional(Type.String({ pattern: '^[0-9]{1,3}$', description: `Values, up to ${MAX_VALUES}.` })),
});

/** Queries that have been, how they ended, and figures of them (docs/rest-api.md#queries-and-outcomes). */
export function queryRoutes(api: StoreContext): void {
  const { keptHours, clock } = api;
  const { queryList: list, queryStatistics: statistics } = api.store;
  const route = routes(api, 'queries');

  route('GET', '/api/queries', {
    summary: 'Lists queries with their outcomes, newest first',
    description:
      'Submissions that the gateway refused or denied are among them. Callers without ADMIN see their own queries. Carries an ETag.',
    query: ListQuery,
    returns: ['The page.', QueryPage],
    hasTag: true,
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, query }) => {
      const size = Math.max(1, Math.min(Number(query.limit ?? DEFAULT_PAGE), MAX_PAGE));
      const filter = { ...filterOf(query), ...(await visibleFilter(request, api)) };
      const rows = await list.find(filter, size, placeOf(query.after), LISTED_TEXT);
      const last = rows.length < size ? undefined : rows.at(-1);
      const next = last === undefined ? null : `${last.created}:${last.queryId}`;
      return { queries: rows.map(queryRow), next, keptHours };
    },
  });

  route('GET', '/api/queries/export', {
    summary: 'Exports queries with their outcomes as CSV or JSON',
    description: `Up to ${MAX_EXPORTED} queries, newest first, as the list has them; statements up to 10,000 characters.`,
    query: ExportQuery,
    responses: {
      200: {
        description: 'The queries.',
        content: { 'text/csv': { schema: Type.String() }, 'application/json': { schema: Type.Array(ListedQuery) } },
      },
    },
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, reply, query }) => {
      const filter = { ...filterOf(query), ...(await visibleFilter(request, api)) };
      const { format = 'csv' } = query;
      // The first rows, so that an unavailable database still gets its own status.
      await list.find(filter, 1, null, 0);
      reply.header('content-disposition', `attachment; filename="queries.${format}"`);
      reply.type(format === 'csv' ? 'text/csv; charset=utf-8' : 'application/json; charset=utf-8');
      return reply.send(Readable.from(format === 'csv' ? csv(list, filter) : json(list, filter)));
    },
  });

  route('GET', '/api/statistics', {
    summary: 'Counts queries, failures, durations and what they used',
    description:
      'Of queries that were submitted within a range and have ended, by cluster, routing group, user, source, rule or group of users (a query counts for each group of its user). Callers without ADMIN count their own. Carries an ETag.',
    query: StatisticsQuery,
    returns: ['The figures.', Statistics],
    hasTag: true,
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, query }) => {
      const { by = 'cluster', limit, cluster, routingGroup } = query;
      const to = Number(query.to ?? clock.now());
      const from = Number(query.from ?? to - HOUR);
      const visible = await visibleQueries(request, api);
      // Figures are of one cluster, of one group, or of one user: sums have no more than one of them.
      const isOwn = visible?.clusters.includes(cluster ?? '') || visible?.groups.includes(routingGroup ?? '');
      const values = await statistics.of({
        ...{ by, from, to, limit: Math.max(1, Math.min(Number(limit ?? MAX_VALUES), MAX_VALUES)) },
        ...(visible === null || isOwn ? {} : { user: visible.user }),
        ...(cluster === undefined ? {} : { cluster: searchText(cluster) }),
        ...(routingGroup === undefined ? {} : { routingGroup: searchText(routingGroup) }),
      });
      const counted = values.map((value) => ({
        ...value,
        failures: (value.states.FAILED ?? 0) + (value.states.LOST ?? 0) - value.userErrors,
        refused: value.states.REFUSED ?? 0,
      }));
      return { by, from, to, keptHours, values: counted };
    },
  });
}

function filterOf(query: Static<typeof Filter>): QueryListFilter {
  const { from, to, state: states, minElapsedMillis, maxElapsedMillis, match } = query;
  const own = (Object.keys(texts) as (keyof typeof texts)[]).flatMap((field) => {
    const value = query[field];
    return value === undefined || value === '' ? [] : [[field, searchText(value)] as const];
  });
  const numbers = Object.entries({ from, to, minElapsedMillis, maxElapsedMillis }).flatMap(([field, value]) =>
    value === undefined ? [] : [[field, Number(value)] as const],
  );
  return {
    ...Object.fromEntries([...own, ...numbers]),
    ...(match === 'prefix' ? { match } : {}),
    ...(states === undefined ? {} : { states: states.split(',') as QueryState[] }),
  };
}

function placeOf(after: string | undefined) {
  if (after === undefined) return null;
  const parts = /^(\d{1,15}):(.+)$/s.exec(after);
  if (parts !== null) return { created: Number(parts[1]), queryId: searchText(parts[2] as string) };
  throw new GatewayError('EG_MALFORMED', 'after must be `next` of the page before.', { field: 'after' });
}

async function* chunks(list: QueryList, filter: QueryListFilter): AsyncGenerator<ReturnType<typeof queryRow>[]> {
  let after: ReturnType<typeof placeOf> = null;
  for (let count = 0; count < MAX_EXPORTED; ) {
    const most = Math.min(CHUNK, MAX_EXPORTED - count);
    const rows: readonly ListedOutcome[] = await list.find(filter, most, after, EXPORTED_TEXT);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows.map(queryRow);
    count += rows.length;
    after = last;
  }
}

/** Queries as JSON: an array, written as it is read. */
async function* json(list: QueryList, filter: QueryListFilter): AsyncGenerator<string> {
  let separator = '[';
  for await (const rows of chunks(list, filter)) {
    yield separator + rows.map((row) => JSON.stringify(row)).join(',\n');
    separator = ',\n';
  }
  yield separator === '[' ? '[]\n' : ']\n';
}

const ofQuery = ['queryId', 'created', 'user', 'source', 'routingGroup', 'cluster'] as const;
const ofOutcome = [
  ...(['state', 'errorName', 'errorType', 'errorCode', 'errorMessage', 'elapsedMillis', 'queuedMillis'] as const),
  ...(['gatewayQueuedMillis', 'cpuMillis', 'processedRows', 'processedBytes', 'peakMemoryBytes'] as const),
  ...(['resultBytes', 'pages', 'lastSeen', 'firstRowMillis'] as const),
];

/** Last columns: programs may read the first ones by their place. */
const ofStatement = [
  ...(['physicalInputBytes', 'planningMillis', 'analysisMillis', 'spilledBytes'] as const),
  ...(['digest', 'exactDigest', 'tool', 'model', 'dashboard'] as const),
];

/** Queries as CSV (RFC 4180), with a line of names. */
async function* csv(list: QueryList, filter: QueryListFilter): AsyncGenerator<string> {
  yield `${[...ofQuery, ...ofOutcome, 'rule', 'queryText', ...ofStatement, 'bypassed'].join(',')}\r\n`;
  for await (const rows of chunks(list, filter)) {
    const lines = rows.map((query) => {
      const figures = (names: readonly (keyof QueryOutcome)[]) => names.map((name) => query.outcome?.[name] ?? null);
      const before = [...ofQuery.map((name) => query[name]), ...figures(ofOutcome)];
      const values = [...before, query.rule, query.queryText, ...figures(ofStatement), String(query.bypassed)];
      return `${values.map(cell).join(',')}\r\n`;
    });
    yield lines.join('');
  }
}

/** A value of CSV. Texts that a spreadsheet would take for a formula begin with an apostrophe: users write them. */
function cell(value: string | number | null): string {
  if (value === null || typeof value === 'number') return String(value ?? '');
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const MAX_LISTED = 1_000;
/** Engines give up a query whose client has not asked for this long. */
const ABANDONED_AFTER_MS = 300_000;
const exact = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));
const RunningFilter = Type.Object({
  cluster: exact('Registry name of the cluster that runs it.'),
  routingGroup: exact('Routing group that it was routed to.'),
  user: exact('Who sent it.'),
});
const IdInPath = Type.Object({ queryId: Type.String({ description: 'Id of the query.' }) });

/** Queries that run, on all replicas, and their end (docs/rest-api.md#running-queries). */
export function runningQueryRoutes(api: StoreContext): void {
  const { buffered, kill, clock, store } = api;
  const route = routes(api, 'routing');

  route('GET', '/api/queries/running', {
    summary: 'Lists the queries that clients are following, on all replicas',
    description: 'Callers without the role ADMIN see their own queries.',
    query: RunningFilter,
    returns: ['Queries that run.', RunningQueryList],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, query }): Promise<RunningQueryList> => {
      const visibleTo = (await visibleQueries(request, api)) ?? undefined;
      const now = clock.now();
      const filter = { ...query, ...(visibleTo && { visibleTo }), seenSince: now - ABANDONED_AFTER_MS };
      const rows = await store.runningQueries.list(filter, MAX_LISTED + 1);
      const queries = rows.slice(0, MAX_LISTED).map(({ started, lastSeen, ...row }) => ({
        ...{ ...row, since: iso(started), lastRequest: iso(lastSeen) },
        ageSeconds: Math.max(0, Math.floor((now - started) / 1000)),
      }));
      return { total: queries.length, complete: rows.length <= MAX_LISTED, queries };
    },
  });

  route('DELETE', '/api/queries/running/:queryId', {
    summary: 'Ends a running query',
    description:
      "By the engine's own call, in the caller's name: the engine checks whether that user may. Callers without the role ADMIN end their own queries.",
    params: IdInPath,
    responses: { 204: Type.Null({ description: 'The cluster has ended it.' }) },
    errors: [404, 422, 502, 503],
    options: ofNamespaces,
    handle: async ({ request, reply, params: { queryId } }) => {
      const visible = await visibleQueries(request, api);
      const isPossible = /^[\w-]{1,256}$/.test(queryId);
      const record = isPossible ? (buffered(queryId) ?? (await store.history.get(queryId))) : null;
      const notRunning = notFound(`No query ${queryId.slice(0, 100)} of yours runs.`);
      const isTheirs = visible === null || (record !== null && isVisible(visible, record));
      if (!isPossible || !isTheirs) throw notRunning;
      const caller = callerOf(request);
      const result = await kill(queryId, nameAtCluster(caller, record));
      if (result.kind === 'unknown' || result.kind === 'gone') throw notRunning;
      if (result.kind === 'unreachable') {
        throw new GatewayError('EG_CLUSTER_FAILED', `${result.cluster} cannot be reached: ${result.reason}.`);
      }
      if (result.kind === 'rejected') {
        const message = `${result.cluster} does not let ${caller.name} end query ${queryId} (${result.status}). Where it asks for a password, end the query there: CALL system.runtime.kill_query(query_id => '${queryId}', message => '…').`;
        throw new GatewayError('EG_IMPOSSIBLE', message);
      }
      const before = { queryId, user: record?.user ?? null, cluster: result.cluster };
      const subject = { kind: 'RunningQuery', name: queryId };
      request.changes.push({ object: `running query ${queryId}`, subject, regarding: null, before, after: null });
      return reply.code(204).send();
    },
  });
}

/** The name by which the cluster of a query knows a caller who ends it: of its own user the one that it was sent with. */
function nameAtCluster(caller: Caller, record: Pick<QueryRecord, 'user' | 'decision'> | null): string {
  if (record === null) return caller.name;
  const { user, decision } = record;
  const mapping = decision === null ? undefined : (JSON.parse(decision) as StoredDecision).userMapping;
  const isMapped = mapping?.isForwarded === true;
  // Without authentication, every caller counts as the query's user.
  const isOwn = caller.by === 'open' || user === queryUserOf(caller);
  if (isOwn) return (mapping === undefined || isMapped ? user : mapping.from) ?? caller.name;
  return isMapped ? queryUserOf(caller) : caller.name;
}

const MAX_QUEUED = 10_000;

/** A query that waits, with its place and reason. */
export type QueueEntry = QueueList['queries'][number];

/** Lists queries that wait on all replicas, with their places. */
export type ListQueue = () => Promise<readonly QueueEntry[]>;

/** Returns the list of the queries that wait. */
export function queueLister({ store, table }: StoreContext): ListQueue {
  return async () => {
    const all = await store.queuedQueries.list(MAX_QUEUED);
    const waiting = all.filter(({ state }) => state === 'waiting');
    const placeOf = queuePlaces(table.current.admission, waiting);
    const ofGroup = Map.groupBy(waiting, ({ group }) => group);
    return all.map(({ id, group, user, source, created, waitingMs, movedAt, state, reason, replica }) => ({
      ...{ id, routingGroup: group, user, source, since: iso(created), waitedSeconds: Math.floor(waitingMs / 1000) },
      position: placeOf.get(id)?.position ?? null,
      groupWaiting: ofGroup.get(group)?.length ?? 0,
      ...{ movedFirst: movedAt !== null, state, reason, replica: replica === '' ? null : replica },
    }));
  };
}

const QueuedIdInPath = Type.Object({ id: Type.String({ description: 'Id that the gateway gave the query.' }) });

/** Queries that wait for their turn, on all replicas (docs/limits.md#seeing-and-changing-the-queue). */
export function queueRoutes(api: StoreContext, list: ListQueue): void {
  const { queuedQueries } = api.store;
  const route = routes(api, 'routing');

  route('GET', '/api/queue', {
    summary: 'Lists the queries that wait for their turn',
    description: 'Callers without the role ADMIN see their own queries.',
    returns: ['Queries that wait, on all replicas.', QueueList],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request }): Promise<QueueList> => {
      const visible = await visibleQueries(request, api);
      const queries = (await list()).filter((query) => isVisible(visible, { ...query, cluster: null }));
      return { total: queries.length, queries };
    },
  });

  /** Changes the row of a waiting query. @param after as the audit has it */
  const change = async (
    { request, reply, params: { id } }: Call<{ readonly id: string }>,
    make: (row: QueuedQueryRow) => Promise<unknown>,
    after: (before: object) => object | null,
  ) => {
    const row = isQueuedId(id) ? await queuedQueries.get(id) : null;
    if (row === null || row.state !== 'waiting' || !(await make(row))) {
      throw notFound(`No query ${id.slice(0, 100)} waits in the queue.`);
    }
    const { user, source, group, movedAt } = row;
    const before = { id, user, source, routingGroup: group, movedFirst: movedAt !== null };
    const subject = { kind: 'QueuedQuery', name: id };
    request.changes.push({ object: `queued query ${id}`, subject, regarding: null, before, after: after(before) });
    return reply.code(204).send();
  };

  const drop = ({ id, isHeld, replica }: QueuedQueryRow) =>
    isHeld ? queuedQueries.setCommand(id, 'kill') : queuedQueries.apply('cancel', id, replica);

  route('DELETE', '/api/queue/:id', {
    summary: 'Takes a waiting query out of the queue',
    description: 'Its client gets an error that says so, within some seconds.',
    params: QueuedIdInPath,
    responses: { 204: Type.Null({ description: 'It does not wait any more.' }) },
    errors: [404, 503],
    handle: (call) => change(call, drop, () => null),
  });

  route('POST', '/api/queue/:id/first', {
    summary: 'Moves a waiting query before all others of its routing group',
    description:
      'The replica that holds it admits it next, within a quarter of a second; the limits hold for it as before. Of several, the last one moved comes first.',
    params: QueuedIdInPath,
    responses: { 204: Type.Null({ description: 'It is the first of its group.' }) },
    errors: [404, 503],
    handle: (call) =>
      change(
        call,
        () => queuedQueries.moveFirst(call.params.id),
        (before) => ({ ...before, movedFirst: true }),
      ),
  });
}
