import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { type ClusterEntry, type RoutingTable, takesNewQueries } from '../routing/routingTable.ts';
import { Scaling } from './answers/scaling.ts';
import type { ClusterQueriesLookup } from './drainRoutes.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface ScalingRoutes {
  readonly table: { readonly current: RoutingTable };
  readonly runningQueries: ClusterQueriesLookup;
  readonly waitingQueries: WaitingQueriesCount;
}

/**
 * Number of queries queued for a routing group on all replicas; `complete` is false while the database is unavailable.
 */
export type WaitingQueriesCount = (group: string) => Promise<{ readonly count: number; readonly complete: boolean }>;

const GroupInPath = Type.Object({
  group: Type.String({ minLength: 1, maxLength: 256, description: 'Name of the routing group, percent-encoded.' }),
});

/** `GET /api/scaling/{group}`: what clusters of a routing group are needed for (docs/limits.md#scaling-with-keda). */
export async function scalingRoutes(app: FastifyInstance, dependencies: ScalingRoutes): Promise<void> {
  const { table } = dependencies;
  app.get(
    '/api/scaling/:group',
    {
      schema: {
        tags: ['cluster registry'],
        summary: 'Shows what clusters of a routing group are needed for',
        description: 'For programs that scale clusters, such as the metrics-api scaler of KEDA.',
        params: GroupInPath,
        response: { 200: answer('Queries and clusters of the group.', Scaling), ...errorAnswers(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { group } = request.params as { group: string };
      const { groups, admission } = table.current;
      const members = groups.get(group);
      if (members === undefined && !admission.groups.has(group)) {
        const message = `There is no routing group ${JSON.stringify(group)}: no cluster belongs to it, and no resource declares it.`;
        throw new GatewayError('EG_NOT_FOUND', message, { field: 'group' });
      }
      return reply.send((await scalingOf(group, members ?? [], dependencies)) satisfies Scaling);
    },
  );
}

async function scalingOf(
  group: string,
  members: readonly ClusterEntry[],
  { table, runningQueries, waitingQueries }: ScalingRoutes,
): Promise<Scaling> {
  let running = 0;
  let queuedThere = 0;
  const waiting = await waitingQueries(group);
  let { complete } = waiting;
  for (const { name, health } of members) {
    queuedThere += health.queued ?? 0;
    if (health.running === null) {
      const followed = await runningQueries(name);
      running += followed.queries.length;
      complete &&= followed.complete;
    } else running += health.running;
  }
  const queued = waiting.count;
  const active = members.filter((member) => member.active);
  const healthy = members.filter(takesNewQueries);
  const maxRunning = table.current.admission.groups.get(group)?.maxRunning ?? null;
  return {
    group,
    queued,
    running,
    demand: queued + running + queuedThere,
    capacity: capacityOf(healthy, maxRunning),
    clusters: { registered: members.length, active: active.length, healthy: healthy.length },
    complete,
  };
}

/** @param maxRunning of the group; null for no limit */
function capacityOf(healthy: readonly ClusterEntry[], maxRunning: number | null): number | null {
  let ofClusters: number | null = 0;
  for (const { maxRunningQueries } of healthy) {
    if (maxRunningQueries === undefined) ofClusters = null;
    else if (ofClusters !== null) ofClusters += maxRunningQueries;
  }
  if (ofClusters === null) return maxRunning;
  return maxRunning === null ? ofClusters : Math.min(ofClusters, maxRunning);
}
