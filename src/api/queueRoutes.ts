import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { isQueuedId } from '../routing/queryId.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../store/store.ts';
import { QueueList } from './answers/queue.ts';
import { recordChange } from './auth/audit.ts';
import { visibleUser } from './auth/guard.ts';
import type { QueueEntries } from './queueEntries.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface QueueRoutes {
  readonly queuedQueries: Pick<QueuedQueryRepository, 'get' | 'setCommand' | 'remove' | 'moveFirst'>;
  readonly entries: Pick<QueueEntries, 'list'>;
}

const tags = ['routing'];
const IdInPath = Type.Object({ id: Type.String({ description: 'Id that the gateway gave the query.' }) });

/** Queries that wait for their turn, on all replicas (docs/limits.md#seeing-and-changing-the-queue). */
export async function queueRoutes(app: FastifyInstance, { queuedQueries, entries }: QueueRoutes): Promise<void> {
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
      const queries = (await entries.list()).filter(({ user }) => own === null || user === own);
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
      const row = await waitingRow(id);
      const isDropped = row.isHeld ? await queuedQueries.setCommand(id, 'kill') : await queuedQueries.remove(id);
      if (!isDropped) throw notWaiting(id);
      const subject = { kind: 'QueuedQuery', name: id };
      recordChange(request, {
        object: `queued query ${id}`,
        subject,
        regarding: null,
        before: audited(row),
        after: null,
      });
      return reply.code(204).send();
    },
  );

  app.post(
    '/api/queue/:id/first',
    {
      schema: {
        tags,
        summary: 'Moves a waiting query before all others of its routing group',
        description:
          'The replica that holds it admits it next, within a quarter of a second; the limits hold for it as before. Of several, the last one moved comes first.',
        params: IdInPath,
        response: {
          204: { description: 'It is the first of its group.', type: 'null' },
          ...errorAnswers(401, 403, 404, 503),
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params as { id: string };
      const row = await waitingRow(id);
      if (!(await queuedQueries.moveFirst(id))) throw notWaiting(id);
      const before = audited(row);
      const after = { ...before, movedFirst: true };
      const subject = { kind: 'QueuedQuery', name: id };
      recordChange(request, { object: `queued query ${id}`, subject, regarding: null, before, after });
      return reply.code(204).send();
    },
  );

  /** @throws GatewayError EG_NOT_FOUND where no query of the id waits */
  async function waitingRow(id: string): Promise<QueuedQueryRow> {
    const row = isQueuedId(id) ? await queuedQueries.get(id) : null;
    if (row === null || row.state !== 'waiting') throw notWaiting(id);
    return row;
  }
}

function notWaiting(id: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `No query ${id.slice(0, 100)} waits in the queue.`);
}

function audited({ id, user, source, group, movedAt }: QueuedQueryRow): object {
  return { id, user, source, routingGroup: group, movedFirst: movedAt !== null };
}
