import { Type } from 'typebox';
import type { Answer } from './answer.ts';

/** A query of the history, as the views show it. */
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
