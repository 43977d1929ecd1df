import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });

/** Metrics for a program that scales the clusters of a routing group. */
export const Scaling = Type.Object({
  group: Type.String({ description: 'The routing group.' }),
  queued: count('Queries that wait for the group, on all replicas; wake a cluster while it is above 0.'),
  running: count('Queries that run on its clusters.'),
  demand: count('Both, and queries in the queues of its clusters: what clusters are needed for.'),
  capacity: nullable(
    count('Queries that may run at a time on its healthy clusters and in the group.'),
    'Null: there is no limit.',
  ),
  clusters: Type.Object({
    registered: count('Clusters of the group.'),
    active: count('Those of them that take new queries.'),
    healthy: count('Those of the active ones whose last check was good.'),
  }),
  complete: Type.Boolean({
    description: "False while the database is unavailable: then only this replica's own queries are counted.",
  }),
});
export type Scaling = Answer<typeof Scaling>;
