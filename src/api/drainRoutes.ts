import type { FastifyInstance } from 'fastify';
import type { ClusterChanges } from '../gateway/health/clusterChanges.ts';
import { GatewayError } from '../model/errors.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RunningQueryRow } from '../store/store.ts';
import { Drain, LISTED_QUERIES } from './answers/drain.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface DrainRoutes {
  readonly table: RoutingTableHolder;
  readonly runningQueries: ClusterQueriesLookup;
  readonly changes: ClusterChanges;
}

/**
 * After a cluster was switched off for this long, every replica has stopped giving it queries, and the others know of the last ones:
 * replicas share queries that are two seconds old every second.
 */
const SETTLED_AFTER_MS = 5_000;

/** Queries that clients follow on a cluster, on all replicas; `complete` is false while the database is unavailable. */
export type ClusterQueriesLookup = (
  cluster: string,
) => Promise<{ readonly queries: readonly RunningQueryRow[]; readonly complete: boolean }>;

/** `GET /api/clusters/{name}/drain`: what a cluster still runs, before it is deleted. */
export async function drainRoutes(
  app: FastifyInstance,
  { table, runningQueries, changes }: DrainRoutes,
): Promise<void> {
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
      const isSettled = (changes.offFor(name) ?? 0) >= SETTLED_AFTER_MS;
      const hasCounts = checkedAt !== null && (running !== null || queued !== null);
      return reply.send({
        cluster: name,
        active: cluster.active,
        drained: !cluster.active && isSettled && complete && queries.length === 0,
        settled: isSettled,
        complete,
        runningQueries: queries.length,
        oldestSince: queries[0] === undefined ? null : iso(queries[0].started),
        queries: queries.slice(0, LISTED_QUERIES).map(({ queryId, started, lastSeen }) => ({
          queryId,
          since: iso(started),
          lastRequest: iso(lastSeen),
        })),
        reported: hasCounts ? { running, queued, checkedAt: iso(checkedAt) } : null,
      } satisfies Drain);
    },
  );
}

function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
