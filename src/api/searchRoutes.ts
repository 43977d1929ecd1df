import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { compileCheck } from '../model/validation.ts';
import type { QueryList } from '../store/queryList.ts';
import { SearchRow } from './answers/history.ts';
import { visibleUser } from './auth/guard.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { answer, errorAnswers, withoutNulls } from './schemas.ts';
import { HistoryQuery, type HistorySearch, historyPage } from './webapp/historyRoutes.ts';

const SearchQuery = Type.Object({
  ...HistoryQuery.properties,
  match: Type.Optional(
    Type.Union([Type.Literal('exact'), Type.Literal('prefix')], {
      description:
        'prefix: of user, routingGroup, queryId, source and cluster the beginning is enough. exact when absent.',
    }),
  ),
});
const checkQuery = compileCheck(SearchQuery);

const SearchPage = Type.Object({ total: Type.Integer(), rows: Type.Array(SearchRow) });

/** The search of the history for everybody: users find their own queries (docs/rest-api.md#routing-explained). */
export async function searchRoutes(
  app: FastifyInstance,
  { list, ...search }: HistorySearch & { readonly list: Pick<QueryList, 'ends'> | null },
): Promise<void> {
  app.post(
    '/api/history/search',
    {
      schema: {
        tags: ['routing'],
        summary: 'Finds queries of the history, newest first',
        description:
          'Body and answer are those of `/webapp/findQueryHistory`, with `match` and how each query ended, where that is known. Callers without ADMIN see their own queries.',
        body: SearchQuery,
        response: { 200: answer('The page.', SearchPage), ...errorAnswers(400, 413, 415, 503) },
      },
    },
    async (request, reply) => {
      const checked = checkQuery(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const { match = 'exact', ...query } = checked.value;
      const user = await visibleUser(request);
      const fixed = { match, ...(user === null ? {} : { visibleTo: user, user }) };
      const { total, rows } = await historyPage(query, fixed, search);
      const ends = await list?.ends(rows.map(({ queryId }) => queryId));
      const ended = rows.map((row): SearchRow => ({ ...row, ...withoutNulls(ends?.get(row.queryId) ?? {}) }));
      return reply.send({ total, rows: ended });
    },
  );
}
