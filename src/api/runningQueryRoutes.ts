import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { KillResult } from '../gateway/ownership/engineKills.ts';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import type { StoredDecision } from '../routing/storedDecision.ts';
import type { QueryHistoryRepository } from '../store/historyRepository.ts';
import type { RunningQueryRepository } from '../store/runningQueryRepository.ts';
import type { QueryRecord } from '../store/store.ts';
import { RunningQueryList } from './answers/runningQueries.ts';
import { recordChange } from './auth/audit.ts';
import { type Caller, queryUserOf } from './auth/caller.ts';
import { callerOf, visibleUser } from './auth/guard.ts';
import { answer, errorAnswers } from './schemas.ts';

type RunningRecord = Pick<QueryRecord, 'user' | 'decision'>;

export interface RunningQueryRoutes {
  readonly repository: Pick<RunningQueryRepository, 'list'>;
  readonly history: Pick<QueryHistoryRepository, 'get'>;
  readonly buffered: (queryId: string) => RunningRecord | null;
  /** Ends a query by the engine's own call, in the name of a user. */
  readonly kill: (queryId: string, user: string) => Promise<KillResult>;
  readonly clock: Clock;
}

const MAX_LISTED = 1_000;
/** Engines give up a query whose client has not asked for this long. */
const ABANDONED_AFTER_MS = 300_000;
const tags = ['routing'];
const exact = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));
const Filter = Type.Object({
  cluster: exact('Registry name of the cluster that runs it.'),
  routingGroup: exact('Routing group that it was routed to.'),
  user: exact('Who sent it.'),
});
const IdInPath = Type.Object({ queryId: Type.String({ description: 'Id of the query.' }) });

/** Queries that run, on all replicas, and their end (docs/rest-api.md#running-queries). */
export async function runningQueryRoutes(app: FastifyInstance, options: RunningQueryRoutes): Promise<void> {
  const { repository, history, buffered, kill, clock } = options;

  app.get<{ Querystring: { cluster?: string; routingGroup?: string; user?: string } }>(
    '/api/queries/running',
    {
      schema: {
        tags,
        summary: 'Lists the queries that clients are following, on all replicas',
        description: 'Callers without the role ADMIN see their own queries.',
        querystring: Filter,
        response: { 200: answer('Queries that run.', RunningQueryList), ...errorAnswers(400, 401, 403, 503) },
      },
    },
    async (request, reply) => {
      const own = await visibleUser(request);
      const { user, ...filter } = request.query;
      const isNobody = own !== null && user !== undefined && user !== own;
      const who = own ?? user;
      const now = clock.now();
      const rows = isNobody
        ? []
        : await repository.list(
            { ...filter, ...(who === undefined ? {} : { user: who }), seenSince: now - ABANDONED_AFTER_MS },
            MAX_LISTED + 1,
          );
      const queries = rows.slice(0, MAX_LISTED).map(({ started, lastSeen, ...row }) => ({
        ...row,
        since: new Date(started).toISOString(),
        ageSeconds: Math.max(0, Math.floor((now - started) / 1000)),
        lastRequest: new Date(lastSeen).toISOString(),
      }));
      const complete = rows.length <= MAX_LISTED;
      return reply.send({ total: queries.length, complete, queries } satisfies RunningQueryList);
    },
  );

  app.delete(
    '/api/queries/running/:queryId',
    {
      schema: {
        tags,
        summary: 'Ends a running query',
        description:
          "By the engine's own call, in the caller's name: the engine checks whether that user may. Callers without the role ADMIN end their own queries.",
        params: IdInPath,
        response: {
          204: { description: 'The cluster has ended it.', type: 'null' },
          ...errorAnswers(401, 403, 404, 422, 502, 503),
        },
      },
    },
    async (request, reply) => {
      const { queryId } = request.params as { queryId: string };
      const own = await visibleUser(request);
      const isPossible = /^[\w-]{1,256}$/.test(queryId);
      const record = isPossible ? (buffered(queryId) ?? (await history.get(queryId))) : null;
      if (!isPossible || (own !== null && record?.user !== own)) throw notRunning(queryId);
      const caller = callerOf(request);
      const result = await kill(queryId, nameAtCluster(caller, record));
      if (result.kind === 'unknown' || result.kind === 'gone') throw notRunning(queryId);
      if (result.kind === 'unreachable') {
        throw new GatewayError('EG_CLUSTER_FAILED', `${result.cluster} cannot be reached: ${result.reason}.`);
      }
      if (result.kind === 'refused') {
        const message = `${result.cluster} does not let ${caller.name} end query ${queryId} (${result.status}). Where it asks for a password, end the query there: CALL system.runtime.kill_query(query_id => '${queryId}', message => '…').`;
        throw new GatewayError('EG_IMPOSSIBLE', message);
      }
      recordChange(request, {
        object: `running query ${queryId}`,
        subject: { kind: 'RunningQuery', name: queryId },
        regarding: null,
        before: { queryId, user: record?.user ?? null, cluster: result.cluster },
        after: null,
      });
      return reply.code(204).send();
    },
  );
}

/** The name by which the cluster of a query knows a caller who ends it: of its own user the one that it was sent with. */
function nameAtCluster(caller: Caller, record: RunningRecord | null): string {
  if (record === null) return caller.name;
  const { user, decision } = record;
  const mapping = decision === null ? undefined : (JSON.parse(decision) as StoredDecision).userMapping;
  const isMapped = mapping?.isForwarded === true;
  // Without authentication, every caller counts as the query's user.
  const isOwn = caller.by === 'open' || user === queryUserOf(caller);
  if (isOwn) return (mapping === undefined || isMapped ? user : mapping.from) ?? caller.name;
  return isMapped ? queryUserOf(caller) : caller.name;
}

function notRunning(queryId: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `No query ${queryId.slice(0, 100)} of yours runs.`);
}
