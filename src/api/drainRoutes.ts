import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RunningQueryRow } from '../store/store.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { answer, errorAnswers } from './schemas.ts';

/** Needs of the call. */
export interface DrainRoutes {
  readonly table: RoutingTableHolder;
  readonly runningQueries: ClusterQueriesLookup;
}

/** Queries that clients follow on a cluster, on all replicas; `complete` is false while the database is away. */
export type ClusterQueriesLookup = (
  cluster: string,
) => Promise<{ readonly queries: readonly RunningQueryRow[]; readonly complete: boolean }>;

/** Queries that an answer lists; `runningQueries` counts all. */
const LISTED = 100;

const time = (description: string) => Type.String({ format: 'date-time', description });

const Drain = Type.Object({
  cluster: Type.String({ description: 'Name of the cluster.' }),
  active: Type.Boolean({ description: 'Whether it takes new queries.' }),
  drained: Type.Boolean({
    description: 'Not active, no query left, and all replicas could be asked: the cluster may be deleted.',
  }),
  complete: Type.Boolean({
    description: "False while the database is away: then only this replica's own queries are counted.",
  }),
  runningQueries: Type.Integer({ description: 'Queries that clients are following through any replica.' }),
  oldestSince: Type.Union([time('When the oldest of them began.'), Type.Null()]),
  queries: Type.Array(
    Type.Object({
      queryId: Type.String(),
      since: time('When it began.'),
      lastRequest: time('When its client asked for it last, to the minute.'),
    }),
    { description: `The oldest ${LISTED} of them.` },
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

/** `GET /api/clusters/{name}/drain`: what a cluster still runs, before it is deleted. */
export async function drainRoutes(app: FastifyInstance, { table, runningQueries }: DrainRoutes): Promise<void> {
  app.get(
    '/api/clusters/:name/drain',
    {
      schema: {
        tags: ['cluster registry'],
        summary: 'Shows which queries a cluster still runs',
        params: ClusterInPath,
        response: { 200: answer('What is left.', Drain), ...errorAnswers(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const name = clusterInPath(request);
      const cluster = table.current.clusters.get(name);
      if (cluster === undefined) {
        throw new GatewayError('EG_NOT_FOUND', `There is no cluster named ${JSON.stringify(name)}.`, { field: 'name' });
      }
      const { queries, complete } = await runningQueries(name);
      const { running, queued, checkedAt } = cluster.health;
      const counted = checkedAt !== null && (running !== null || queued !== null);
      return reply.send({
        cluster: name,
        active: cluster.active,
        drained: !cluster.active && complete && queries.length === 0,
        complete,
        runningQueries: queries.length,
        oldestSince: queries[0] === undefined ? null : iso(queries[0].started),
        queries: queries.slice(0, LISTED).map(({ queryId, started, lastSeen }) => ({
          queryId,
          since: iso(started),
          lastRequest: iso(lastSeen),
        })),
        reported: counted ? { running, queued, checkedAt: iso(checkedAt) } : null,
      });
    },
  );
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
