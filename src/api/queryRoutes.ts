import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import type { QueryList, QueryListFilter, QueryListMark } from '../store/queryList.ts';
import { type QueryState, queryStates } from '../store/queryOutcome.ts';
import type { QueryStatisticsRepository } from '../store/queryStatistics.ts';
import { type StatisticsDimension, statisticsDimensions } from '../store/statisticsDimension.ts';
import { LISTED_TEXT, ListedQuery, QueryPage } from './answers/queryList.ts';
import { Statistics } from './answers/statistics.ts';
import { visibleUser } from './auth/guard.ts';
import { csvExport, jsonExport, MAX_EXPORTED, queryRow } from './queryExport.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers } from './schemas.ts';
import { searchText } from './searchText.ts';

export interface QueryRoutes {
  readonly list: QueryList;
  readonly statistics: QueryStatisticsRepository;
  /** `dataStore.queryHistoryHoursRetention`, as it is now. */
  readonly keptHours: number;
  readonly clock: Clock;
}

const tags = ['queries'];
const HOUR = 3_600_000;
const MAX_PAGE = 1000;
const DEFAULT_PAGE = 50;
const MAX_VALUES = 100;

const text = (description: string) => Type.Optional(Type.String({ maxLength: 1024, description }));
const number = (description: string) => Type.Optional(Type.String({ pattern: '^[0-9]{1,15}$', description }));
const state = queryStates.join('|');
const filters = {
  user: text('Exactly; callers without ADMIN see their own in any case.'),
  source: text('Exactly.'),
  cluster: text('Registry name.'),
  routingGroup: text('Exactly.'),
  userGroup: text('A group of the user, exactly; the first 32 of each query are kept.'),
  queryId: text('Id that its cluster, or its refusal, gave it.'),
  match: Type.Optional(
    Type.Unsafe<'exact' | 'prefix'>({
      type: 'string',
      enum: ['exact', 'prefix'],
      description:
        'prefix: of user, source, cluster, routingGroup and queryId the beginning is enough. exact when absent.',
    }),
  ),
  text: text('Part of the statement, letter case aside.'),
  from: number('Milliseconds since 1970, inclusive.'),
  to: number('Milliseconds since 1970, exclusive.'),
  state: Type.Optional(
    Type.String({
      pattern: `^(${state})(,(${state}))*$`,
      description: 'How it ended; several with commas: `FAILED,LOST`.',
    }),
  ),
  errorName: text('SYNTAX_ERROR'),
  errorType: text('USER_ERROR'),
  minElapsedMillis: number('Shortest duration.'),
  maxElapsedMillis: number('Longest duration.'),
};
const Filter = Type.Object(filters);
const ListQuery = Type.Object({
  ...filters,
  limit: Type.Optional(
    Type.String({ pattern: '^[0-9]{1,4}$', description: `Rows, up to ${MAX_PAGE}; ${DEFAULT_PAGE} when absent.` }),
  ),
  after: Type.Optional(Type.String({ maxLength: 1024, description: '`next` of the page before.' })),
});
const ExportQuery = Type.Object({
  ...filters,
  format: Type.Optional(Type.Union([Type.Literal('csv'), Type.Literal('json')], { description: 'csv when absent.' })),
});
const StatisticsQuery = Type.Object({
  by: Type.Optional(
    Type.Unsafe<StatisticsDimension>({
      type: 'string',
      enum: [...statisticsDimensions],
      description: 'What queries are counted by; cluster when absent.',
    }),
  ),
  from: number('Milliseconds since 1970, inclusive; an hour ago when absent.'),
  to: number('Milliseconds since 1970, exclusive; now when absent.'),
  cluster: text('Only queries of this cluster, by its registry name.'),
  routingGroup: text('Only queries of this routing group.'),
  limit: Type.Optional(Type.String({ pattern: '^[0-9]{1,3}$', description: `Values, up to ${MAX_VALUES}.` })),
});

/** Queries that have been, how they ended, and figures of them (docs/rest-api.md#queries-and-outcomes). */
export async function queryRoutes(
  app: FastifyInstance,
  { list, statistics, keptHours, clock }: QueryRoutes,
): Promise<void> {
  revalidate(app);

  app.get<{ Querystring: Static<typeof ListQuery> }>(
    '/api/queries',
    {
      schema: {
        tags,
        summary: 'Lists queries with their outcomes, newest first',
        description:
          'Submissions that the gateway refused or denied are among them. Callers without ADMIN see their own queries. Carries an ETag.',
        querystring: ListQuery,
        response: { 200: answer('The page.', QueryPage), ...notModified, ...errorAnswers(400, 503) },
      },
    },
    async (request, reply) => {
      const { limit, after } = request.query;
      const size = Math.max(1, Math.min(Number(limit ?? DEFAULT_PAGE), MAX_PAGE));
      const user = await visibleUser(request);
      const rows = await list.find(visibleFilter(user, request.query), size, markOf(after), LISTED_TEXT);
      const last = rows.length < size ? undefined : rows.at(-1);
      const next = last === undefined ? null : `${last.created}:${last.queryId}`;
      return reply.send({ queries: rows.map(queryRow), next, keptHours: keptHours });
    },
  );

  app.get<{ Querystring: Static<typeof ExportQuery> }>(
    '/api/queries/export',
    {
      schema: {
        tags,
        summary: 'Exports queries with their outcomes as CSV or JSON',
        description: `Up to ${MAX_EXPORTED} queries, newest first, as the list has them; statements up to 10,000 characters.`,
        querystring: ExportQuery,
        response: {
          200: {
            description: 'The queries.',
            content: {
              'text/csv': { schema: Type.String() },
              'application/json': { schema: Type.Array(ListedQuery) },
            },
          },
          ...errorAnswers(400, 503),
        },
      },
    },
    async (request, reply) => {
      const filter = visibleFilter(await visibleUser(request), request.query);
      const format = request.query.format ?? 'csv';
      // The first rows, so that a database that is unavailable is still answered as such.
      await list.find(filter, 1, null, 0);
      reply.header('content-disposition', `attachment; filename="queries.${format}"`);
      reply.type(format === 'csv' ? 'text/csv; charset=utf-8' : 'application/json; charset=utf-8');
      return reply.send(format === 'csv' ? csvExport(list, filter) : jsonExport(list, filter));
    },
  );

  app.get<{ Querystring: Static<typeof StatisticsQuery> }>(
    '/api/statistics',
    {
      schema: {
        tags,
        summary: 'Counts queries, failures, durations and what they used',
        description: `Of queries that were submitted within a range and have ended, by cluster, routing group, user, source, rule or group of users (a query counts for each group of its user). Callers without ADMIN count their own. Carries an ETag.`,
        querystring: StatisticsQuery,
        response: { 200: answer('The figures.', Statistics), ...notModified, ...errorAnswers(400, 503) },
      },
    },
    async (request, reply) => {
      const { by = 'cluster', limit, cluster, routingGroup } = request.query;
      const now = clock.now();
      const to = Number(request.query.to ?? now);
      const from = Number(request.query.from ?? to - HOUR);
      const user = await visibleUser(request);
      const values = await statistics.of({
        ...{ by, from, to, limit: Math.max(1, Math.min(Number(limit ?? MAX_VALUES), MAX_VALUES)) },
        ...(user === null ? {} : { user }),
        ...(cluster === undefined ? {} : { cluster: searchText(cluster) }),
        ...(routingGroup === undefined ? {} : { routingGroup: searchText(routingGroup) }),
      });
      const counted = values.map((value) => ({
        ...value,
        failures: (value.states.FAILED ?? 0) + (value.states.LOST ?? 0) - value.userErrors,
        refused: value.states.REFUSED ?? 0,
      }));
      return reply.send({ by, from, to, keptHours: keptHours, values: counted });
    },
  );
}

/** The filter of a call. @param user whose queries its caller may see alone; null: all */
function visibleFilter(user: string | null, query: Static<typeof Filter>): QueryListFilter {
  const { from, to, state: states, minElapsedMillis, maxElapsedMillis, match, ...rest } = query;
  const fields = [
    'user',
    'source',
    'cluster',
    'routingGroup',
    'userGroup',
    'queryId',
    'text',
    'errorName',
    'errorType',
  ] as const;
  const texts = fields.flatMap((field) => {
    const value = rest[field];
    return value === undefined || value === '' ? [] : [[field, searchText(value)] as const];
  });
  return {
    ...Object.fromEntries(texts),
    ...(match === 'prefix' ? { match } : {}),
    ...(from === undefined ? {} : { from: Number(from) }),
    ...(to === undefined ? {} : { to: Number(to) }),
    ...(states === undefined ? {} : { states: states.split(',') as QueryState[] }),
    ...(minElapsedMillis === undefined ? {} : { minElapsedMillis: Number(minElapsedMillis) }),
    ...(maxElapsedMillis === undefined ? {} : { maxElapsedMillis: Number(maxElapsedMillis) }),
    ...(user === null ? {} : { visibleTo: user, user }),
  };
}

function markOf(after: string | undefined): QueryListMark | null {
  if (after === undefined) return null;
  const parts = /^(\d{1,15}):(.+)$/s.exec(after);
  if (parts === null)
    throw new GatewayError('EG_MALFORMED', 'after must be `next` of the page before.', { field: 'after' });
  return { created: Number(parts[1]), queryId: searchText(parts[2] as string) };
}
