import { Type } from 'typebox';
import { reference } from '../schemas.ts';
import { type Answer, nullable } from './answer.ts';
import { QueryOutcome } from './outcome.ts';

export const LISTED_TEXT = 2000;

export const ListedQuery = Type.Object({
  queryId: Type.String(),
  created: Type.String({ description: 'RFC 3339.' }),
  user: nullable(Type.String()),
  source: nullable(Type.String()),
  routingGroup: nullable(Type.String()),
  cluster: nullable(Type.String(), 'Null: no cluster took it.'),
  rule: nullable(
    Type.String(),
    'Rule that decided its routing group, or that denied or refused it. Null: none did, or the query began within the last seconds.',
  ),
  queryText: Type.String({ description: `Start of the statement, up to ${LISTED_TEXT} characters.` }),
  outcome: nullable(reference(QueryOutcome), 'Null: it runs, or nobody saw its end.'),
});
export type ListedQuery = Answer<typeof ListedQuery>;

export const QueryPage = Type.Object({
  queries: Type.Array(ListedQuery),
  next: nullable(Type.String(), 'For `after`, to get the next page; null on the last one.'),
  keptHours: Type.Integer({ description: 'How long queries are kept: `dataStore.queryHistoryHoursRetention`.' }),
});
export type QueryPage = Answer<typeof QueryPage>;
