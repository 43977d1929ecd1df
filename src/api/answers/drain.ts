import { Type } from 'typebox';
import type { Answer } from './answer.ts';

/** Queries that a response lists; `runningQueries` counts all. */
export const LISTED_QUERIES = 100;

const time = (description: string) => Type.String({ format: 'date-time', description });

export const Drain = Type.Object({
  cluster: Type.String({ description: 'Name of the cluster.' }),
  active: Type.Boolean({ description: 'Whether it takes new queries.' }),
  drained: Type.Boolean({
    description: 'Not active and settled, no query left, and all replicas could be asked: the cluster may be deleted.',
  }),
  settled: Type.Boolean({
    description: 'It has taken no new queries for 5 seconds: no replica can have begun one that others do not know.',
  }),
  complete: Type.Boolean({
    description: "False while the database is unavailable: then only this replica's own queries are counted.",
  }),
  runningQueries: Type.Integer({ description: 'Queries that clients are following through any replica.' }),
  oldestSince: Type.Union([time('When the oldest of them began.'), Type.Null()]),
  queries: Type.Array(
    Type.Object({
      queryId: Type.String(),
      since: time('When it began.'),
      lastRequest: time('When its client asked for it last, to the minute.'),
    }),
    { description: `The oldest ${LISTED_QUERIES} of them.` },
  ),
  reported: Type.Union(
    [
      Type.Object({
        running: Type.Union([Type.Integer(), Type.Null()]),
        queued: Type.Union([Type.Integer(), Type.Null()]),
        checkedAt: time('When the cluster was asked.'),
      }),
      Type.Null(),
    ],
    {
      description:
        'What the cluster itself said at its last health check, queries of other clients included; null where its kind of check gives no counts.',
    },
  ),
});
export type Drain = Answer<typeof Drain>;
