import { Type } from 'typebox';
import type { Answer } from './answer.ts';
import { QueryOutcome } from './outcome.ts';

export const HistoryRow = Type.Object({
  queryId: Type.String(),
  queryText: Type.String(),
  user: Type.Optional(Type.String()),
  source: Type.Optional(Type.String()),
  cluster: Type.Optional(
    Type.String({ description: 'Name of its cluster when it ran; absent for rows of a gateway that ran before.' }),
  ),
  backendUrl: Type.String(),
  captureTime: Type.Integer({ description: 'Milliseconds since 1970.' }),
  routingGroup: Type.Optional(Type.String()),
  externalUrl: Type.Optional(Type.String()),
});
export type HistoryRow = Answer<typeof HistoryRow>;

export const SearchRow = Type.Object({
  ...HistoryRow.properties,
  state: Type.Optional(QueryOutcome.properties.state),
  errorName: Type.Optional(Type.String({ description: 'SYNTAX_ERROR' })),
  elapsedMillis: Type.Optional(Type.Number({ description: 'From its creation to its end.' })),
});
export type SearchRow = Answer<typeof SearchRow>;
