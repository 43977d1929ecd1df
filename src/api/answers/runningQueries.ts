import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';

export const RunningQueryList = Type.Object({
  total: Type.Integer({ description: 'Queries in the list.' }),
  complete: Type.Boolean({ description: 'False: there are more than a list has.' }),
  queries: Type.Array(
    Type.Object({
      queryId: Type.String(),
      cluster: Type.String({ description: 'Registry name.' }),
      routingGroup: nullable(Type.String(), 'Null where the history does not have the query.'),
      user: nullable(Type.String(), 'Who sent it; null where the history does not have the query.'),
      source: nullable(Type.String(), 'What its client says it is.'),
      queryText: nullable(Type.String(), 'The first 1,000 characters; null where the history does not have the query.'),
      since: Type.String({ format: 'date-time', description: 'When it began.' }),
      ageSeconds: Type.Integer({ description: 'Seconds since then.' }),
      lastRequest: Type.String({
        format: 'date-time',
        description: 'When its client asked last, within a minute.',
      }),
    }),
    { description: 'Oldest first.' },
  ),
});
export type RunningQueryList = Answer<typeof RunningQueryList>;
