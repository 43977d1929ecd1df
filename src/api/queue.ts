import { Type } from 'typebox';
import { QueuePlaces } from '../gateway/admission/queuePlaces.ts';
import { isQueuedId } from '../routing/queryId.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../store/store.ts';
import { QueueList } from './answers/queries.ts';
import { recordChange } from './auth/audit.ts';
import { visibleUser } from './auth/guard.ts';
import { type Call, notFound, type RouteContext, routes } from './routes.ts';
import { iso } from './schemas.ts';

const MAX_LISTED = 10_000;

/** A query that waits, with its place and reason. */
export type QueueEntry = QueueList['queries'][number];

/** Lists queries that wait on all replicas, with their places. */
export type ListQueue = () => Promise<readonly QueueEntry[]>;

/** Returns the list of the queries that wait. */
export function queueLister(
  queuedQueries: Pick<QueuedQueryRepository, 'list'>,
  table: { readonly current: Pick<RoutingTable, 'admission'> },
): ListQueue {
  const places = new QueuePlaces();
  return async () => {
    const all = await queuedQueries.list(MAX_LISTED);
    const waiting = all.filter(({ state }) => state === 'waiting');
    const placeOf = places.of(table.current.admission, waiting);
    const ofGroup = Map.groupBy(waiting, ({ group }) => group);
    return all.map(({ id, group, user, source, created, waitingMs, movedAt, state, reason, replica }) => ({
      ...{ id, routingGroup: group, user, source, since: iso(created), waitedSeconds: Math.floor(waitingMs / 1000) },
      position: placeOf.get(id)?.position ?? null,
      groupWaiting: ofGroup.get(group)?.length ?? 0,
      ...{ movedFirst: movedAt !== null, state, reason, replica: replica === '' ? null : replica },
    }));
  };
}

const IdInPath = Type.Object({ id: Type.String({ description: 'Id that the gateway gave the query.' }) });

/** Queries that wait for their turn, on all replicas (docs/limits.md#seeing-and-changing-the-queue). */
export function queueRoutes(
  api: RouteContext,
  queuedQueries: Pick<QueuedQueryRepository, 'get' | 'setCommand' | 'remove' | 'moveFirst'>,
  list: ListQueue,
): void {
  const route = routes(api, 'routing');

  route('GET', '/api/queue', {
    summary: 'Lists the queries that wait for their turn',
    description: 'Callers without the role ADMIN see their own queries.',
    returns: ['Queries that wait, on all replicas.', QueueList],
    errors: [503],
    handle: async ({ request }): Promise<QueueList> => {
      const own = await visibleUser(request);
      const queries = (await list()).filter(({ user }) => own === null || user === own);
      return { total: queries.length, queries };
    },
  });

  /** Changes the row of a waiting query. @param after as the audit has it */
  const change = async (
    { request, reply, params: { id } }: Call<{ readonly id: string }>,
    make: (row: QueuedQueryRow) => Promise<boolean>,
    after: (before: object) => object | null,
  ) => {
    const row = isQueuedId(id) ? await queuedQueries.get(id) : null;
    if (row === null || row.state !== 'waiting' || !(await make(row))) {
      throw notFound(`No query ${id.slice(0, 100)} waits in the queue.`);
    }
    const { user, source, group, movedAt } = row;
    const before = { id, user, source, routingGroup: group, movedFirst: movedAt !== null };
    const subject = { kind: 'QueuedQuery', name: id };
    recordChange(request, { object: `queued query ${id}`, subject, regarding: null, before, after: after(before) });
    return reply.code(204).send();
  };

  route('DELETE', '/api/queue/:id', {
    summary: 'Takes a waiting query out of the queue',
    description: 'Its client gets an error that says so, within some seconds.',
    params: IdInPath,
    responses: { 204: Type.Null({ description: 'It does not wait any more.' }) },
    errors: [404, 503],
    handle: (call) => {
      const { id } = call.params;
      const drop = ({ isHeld }: QueuedQueryRow) =>
        isHeld ? queuedQueries.setCommand(id, 'kill') : queuedQueries.remove(id);
      return change(call, drop, () => null);
    },
  });

  route('POST', '/api/queue/:id/first', {
    summary: 'Moves a waiting query before all others of its routing group',
    description:
      'The replica that holds it admits it next, within a quarter of a second; the limits hold for it as before. Of several, the last one moved comes first.',
    params: IdInPath,
    responses: { 204: Type.Null({ description: 'It is the first of its group.' }) },
    errors: [404, 503],
    handle: (call) =>
      change(
        call,
        () => queuedQueries.moveFirst(call.params.id),
        (before) => ({ ...before, movedFirst: true }),
      ),
  });
}
