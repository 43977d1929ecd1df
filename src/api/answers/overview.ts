import { type TProperties, Type } from 'typebox';
import type { Answer } from './answer.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });
const counted = <Labels extends TProperties>(labels: Labels) =>
  Type.Array(Type.Object({ ...labels, count: count('Since the process started.') }));

/** What the overview shows. */
export const Overview = Type.Object(
  {
    version: Type.String(),
    startedAt: Type.String({ description: 'Start of the process that answers, RFC 3339. It counts since then.' }),
    notReadyBecause: Type.Union([Type.String(), Type.Null()], { description: 'Null: it takes requests.' }),
    components: Type.Array(
      Type.Object({
        name: Type.String({ description: 'e.g. database, resource source, leader, history buffer.' }),
        ok: Type.Boolean(),
        message: Type.String(),
      }),
      { description: 'The lines of /readyz?verbose.' },
    ),
    leader: Type.Boolean({ description: 'This process writes statuses and projections.' }),
    source: Type.Object({
      available: Type.Boolean({ description: 'The resource source (API server, directory, database) can be read.' }),
      lastEventAgeSeconds: Type.Union([Type.Integer(), Type.Null()], {
        description: 'Whole seconds since its last sign of life, in steps of ten; null before the first.',
      }),
      problems: count('Documents that cannot be read.'),
    }),
    clusters: Type.Object({
      total: count('Registered clusters.'),
      active: count('Those that take new queries.'),
      inactive: count('Those that are deactivated.'),
      byStatus: Type.Record(Type.String(), Type.Integer(), {
        description: 'Clusters by the status of their last health check.',
      }),
      queued: count('Queued queries, as far as health checks count them.'),
      running: count('Running queries, as far as health checks count them.'),
      inFlight: count('Requests on their way to a cluster.'),
    }),
    traffic: Type.Object({
      submissions: count('Queries submitted since the process started.'),
      requests: counted({ kind: Type.String(), status: Type.String({ description: 'Class of the status: 2xx.' }) }),
      refusals: counted({ reason: Type.String() }),
      clusterErrors: counted({ cluster: Type.String(), type: Type.String() }),
      retries: counted({ cluster: Type.String() }),
    }),
    history: Type.Object({
      memory: count('Queries that wait in memory.'),
      disk: count('Queries that wait on disk.'),
      written: count('Queries written since the process started.'),
      lost: count('Queries that are in no history.'),
    }),
  },
  { $id: 'Overview', description: 'The state of the gateway at a glance, of the process that answers.' },
);
export type Overview = Answer<typeof Overview>;

/** Queries by cluster and time. */
export const QuerySeries = Type.Object({
  from: Type.Integer({ description: 'Start of the first interval, milliseconds since 1970.' }),
  to: Type.Integer({ description: 'End of the last interval, milliseconds since 1970.' }),
  intervalMs: Type.Integer({ description: 'Length of an interval in milliseconds, whole minutes.' }),
  total: count('Queries in the range.'),
  clusters: Type.Array(
    Type.Object({
      cluster: Type.String({ description: 'Registry name, or the URL of queries that no name is known of.' }),
      total: Type.Integer(),
      counts: Type.Array(Type.Integer(), { description: 'Queries by interval, in order; all lines are equally long.' }),
    }),
    { description: 'Most queries first.' },
  ),
});
export type QuerySeries = Answer<typeof QuerySeries>;
