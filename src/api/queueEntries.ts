import { QueuePlaces } from '../gateway/admission/queuePlaces.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { QueueList } from './answers/queue.ts';

const MAX_LISTED = 10_000;

/** A query that waits, with its place and reason. */
export type QueueEntry = QueueList['queries'][number];

/** Queries that wait on all replicas, with their places. */
export class QueueEntries {
  readonly #queuedQueries: Pick<QueuedQueryRepository, 'list'>;
  readonly #table: { readonly current: Pick<RoutingTable, 'admission'> };
  readonly #places = new QueuePlaces();

  constructor(
    queuedQueries: Pick<QueuedQueryRepository, 'list'>,
    table: { readonly current: Pick<RoutingTable, 'admission'> },
  ) {
    this.#queuedQueries = queuedQueries;
    this.#table = table;
  }

  async list(): Promise<readonly QueueEntry[]> {
    const all = await this.#queuedQueries.list(MAX_LISTED);
    const waiting = all.filter(({ state }) => state === 'waiting');
    const placeOf = this.#places.of(this.#table.current.admission, waiting);
    const counts = new Map<string, number>();
    for (const { group } of waiting) counts.set(group, (counts.get(group) ?? 0) + 1);
    return all.map((query) => ({
      id: query.id,
      routingGroup: query.group,
      user: query.user,
      source: query.source,
      since: new Date(query.created).toISOString(),
      waitedSeconds: Math.floor(query.waitingMs / 1000),
      position: placeOf.get(query.id)?.position ?? null,
      groupWaiting: counts.get(query.group) ?? 0,
      movedFirst: query.movedAt !== null,
      state: query.state,
      reason: query.reason,
      replica: query.replica === '' ? null : query.replica,
    }));
  }
}
