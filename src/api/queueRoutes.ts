import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { isQueuedId } from '../routing/queryId.ts';
import type { QueuedQueryRepository } from '../store/store.ts';
import { QueueList } from './answers/queue.ts';
import { recordChange } from './auth/audit.ts';
import { visibleUser } from './auth/guard.ts';
import { answer, errorAnswers } from './schemas.ts';

/** Dependencies of the calls. */
export interface QueueRoutes {
  readonly queuedQueries: Pick<QueuedQueryRepository, 'list' | 'get' | 'setCommand' | 'remove'>;
}

/** Queries of one answer. */
const MAX_LISTED = 10_000;
const tags = ['routing'];
const IdInPath = Type.Object({ id: Type.String({ description: 'Id that the gateway gave the query.' }) });

/** Queries that wait for their turn, on all replicas (docs/limits.md#seeing-and-changing-the-queue). */
export async function queueRoutes(app: FastifyInstance, { queuedQueries }: QueueRoutes): Promise<void> {
  app.get(
    '/api/queue',
    {
      schema: {
        tags,
        summary: 'Lists the queries that wait for their turn',
        description: 'Callers without the role ADMIN see their own queries.',
        response: { 200: answer('Queries that wait, on all replicas.', QueueList), ...errorAnswers(401, 403, 503) },
      },
    },
    async (request, reply) => {
      const own = await visibleUser(request);
      const places = new Map<string, number>();
      const queries: QueueList['queries'][number][] = [];
      for (const query of await queuedQueries.list(MAX_LISTED)) {
        const position = (places.get(query.group) ?? 0) + 1;
        places.set(query.group, position);
        if (own !== null && query.user !== own) continue;
        queries.push({
          id: query.id,
          routingGroup: query.group,
          user: query.user,
          source: query.source,
          since: new Date(query.created).toISOString(),
          waitedSeconds: Math.floor(query.waitingMs / 1000),
          position,
          state: query.state,
          reason: query.reason,
          replica: query.replica === '' ? null : query.replica,
        });
      }
      return reply.send({ total: queries.length, queries } satisfies QueueList);
    },
  );

  app.delete(
    '/api/queue/:id',
    {
      schema: {
        tags,
        summary: 'Takes a waiting query out of the queue',
        description: 'Its client gets an error that says so, within some seconds.',
        params: IdInPath,
        response: {
          204: { description: 'It does not wait any more.', type: 'null' },
          ...errorAnswers(401, 403, 404, 503),
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params as { id: string };
      const row = isQueuedId(id) ? await queuedQueries.get(id) : null;
      const isDropped =
        row !== null &&
        row.state === 'waiting' &&
        (row.isHeld ? await queuedQueries.setCommand(id, 'kill') : await queuedQueries.remove(id));
      if (!isDropped) throw new GatewayError('EG_NOT_FOUND', `No query ${id.slice(0, 100)} waits in the queue.`);
      const before = { id, user: row.user, source: row.source, routingGroup: row.group };
      recordChange(request, { object: `queued query ${id}`, regarding: null, before, after: null });
      return reply.code(204).send();
    },
  );
}
