import type { Knex } from 'knex';
import { Batcher } from './batcher.ts';
import { batches, cutToWidth } from './columns.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { next, type QueuedQueryEvent, type QueuedQueryState, stateAfter } from './queuedQueryState.ts';
import type {
  Fence,
  ListedQueuedQuery,
  NewQueuedQuery,
  QueuedCommand,
  QueuedQueryChange,
  QueuedQueryRow,
} from './store.ts';

/** Maximum bytes of a statement: below MySQL's default of `max_allowed_packet`. */
const BATCH_BYTES = 1_500_000;
/** Bytes of a row without its request, so that a statement has 200 rows at most. */
const ROW_BYTES = BATCH_BYTES / 200;
/** Bytes of a row that is read with its request, so that a transaction has 32 at most. */
const REQUEST_BYTES = BATCH_BYTES / 32;
const BATCH_IDS = 500;
const MINUTE_MS = 60_000;
/** More users than a queue has. */
const MAX_FLOWS = 20_000;
const WIDTH = 256;
const REASON_WIDTH = 1_024;
const LOCKING: Knex.TransactionConfig = { isolationLevel: 'read committed' };

const listedColumns = {
  id: 'q.id',
  created: 'q.created',
  group: 'q.routing_group',
  user: 'q.user_name',
  source: 'q.source',
  replica: 'q.replica',
  state: 'q.state',
  movedAt: 'q.moved_at',
} as const;

/** A row with the database's time, and that until which its replica is known to live. */
type Row = Omit<QueuedQueryRow, 'waitingMs' | 'unpolledMs' | 'isHeld'> & {
  readonly now: number;
  readonly expires: number | null;
  readonly polledAt: number;
};

interface Step {
  readonly id: string;
  readonly change: QueuedQueryChange;
}

/** What all steps of a batch share. */
interface StepContext {
  readonly event: QueuedQueryEvent;
  readonly holder: string;
}

interface LockedRow {
  readonly id: string;
  readonly state: QueuedQueryState;
  readonly replica: string;
  readonly request: string | null;
  readonly answer: string | null;
  readonly engine_id: string | null;
}

/** `eg_queued_queries`, and `eg_queue_replicas`: queued queries, and the replicas that hold them. */
export class QueuedQueryRepository {
  private readonly database: Database;
  private readonly steps: Batcher<Step, StepContext, LockedRow | null>;
  private readonly puts: Batcher<NewQueuedQuery, null, undefined>;

  constructor(database: Database) {
    this.database = database;
    this.steps = new Batcher((steps, context) => this.#applyAll(steps, context), BATCH_BYTES);
    this.puts = new Batcher((rows) => this.#insert(rows), BATCH_BYTES);
  }

  /** Adds a query that waits or runs. Queries that come while others are being written go into one statement. */
  put(row: NewQueuedQuery): Promise<void> {
    return this.puts.add(row, null, row.id, row.request.length + ROW_BYTES);
  }

  /**
   * Applies an event to a query by compare-and-set of its state. Events that come while others are being written go
   * together. A repetition after a lost response succeeds as well.
   * @param holder replica that has the query before the event
   * @returns its encrypted request as it was before; null if the event is impossible, or another replica has the query
   */
  async apply(
    event: QueuedQueryEvent,
    id: string,
    holder: string,
    change: QueuedQueryChange = {},
  ): Promise<{ readonly request: string | null } | null> {
    const isResponse = event === 'respond' || event === 'accept';
    const size = isResponse ? (change.answer?.length ?? 0) + ROW_BYTES : REQUEST_BYTES;
    return await this.steps.add({ id, change }, { event, holder }, id, size);
  }

  async get(id: string): Promise<QueuedQueryRow | null> {
    return (await this.many([id]))[0] ?? null;
  }

  /** The encrypted request of a query; null if it has none. */
  request(id: string): Promise<string | null> {
    return this.database.run(async (knex) => {
      const row: { request: string | null } | undefined = await knex('eg_queued_queries')
        .where({ id })
        .first('request');
      return row?.request ?? null;
    });
  }

  /** Rows by their ids. @param settledOnly only queries that do not wait any more, and those of dead replicas */
  async many(ids: readonly string[], settledOnly = false): Promise<readonly QueuedQueryRow[]> {
    const { clockMs } = this.database.dialect;
    const rows: QueuedQueryRow[] = [];
    for (const some of batches(ids, BATCH_IDS)) {
      const page = await this.database.run(async (knex) => {
        const query = knex('eg_queued_queries as q')
          .leftJoin('eg_queue_replicas as r', 'r.replica', 'q.replica')
          .whereIn('q.id', some)
          .select({
            ...listedColumns,
            ...{ command: 'q.command', engineId: 'q.engine_id', answer: 'q.answer' },
            ...{ expires: 'r.expires', polledAt: 'q.polled_at' },
            now: knex.raw(clockMs),
          });
        if (settledOnly) {
          void query.where((changed) =>
            changed.whereNot('q.state', 'waiting').orWhereNull('r.expires').orWhereRaw(`r.expires <= ${clockMs}`),
          );
        }
        return (await query) as Row[];
      });
      rows.push(...page.map(fromRow));
    }
    return rows;
  }

  /** Asks the replica that holds a query to take it out of the queue, for its client or an administrator. */
  setCommand(id: string, command: 'drop' | 'kill'): Promise<boolean> {
    return this.#changeActive(id, { command });
  }

  /** Moves a query before all others of its group, also those that were moved before. */
  moveFirst(id: string): Promise<boolean> {
    return this.#changeActive(id, { moved_at: this.#now });
  }

  /** Commands for a replica, and the queries that were moved first, the last one at the end. */
  commands(replica: string): Promise<readonly QueuedCommand[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries')
        .where({ replica })
        .where((either) =>
          either.whereNotNull('command').orWhere((moved) => moved.where({ state: 'waiting' }).whereNotNull('moved_at')),
        )
        // However many were moved, what is to end comes first.
        .orderByRaw('case when command is null then 1 else 0 end, moved_at desc')
        .limit(BATCH_IDS)
        .select({ id: 'id', command: 'command', movedAt: 'moved_at' })) as QueuedCommand[];
      return rows.reverse();
    });
  }

  async forgetCommand(id: string): Promise<void> {
    await this.#changeAll([id], { command: null });
  }

  /**
   * The newest queued query of the user or source with the most of a group, if these are two more than those of another
   * one.
   */
  async newestOfMost(group: string, by: 'user' | 'source', other: string): Promise<QueuedQueryRow | null> {
    const column = by === 'user' ? 'user_name' : 'source';
    const waiting = { state: 'waiting', routing_group: cutToWidth(group, WIDTH) };
    const id = await this.database.run(async (knex) => {
      const counts = (await knex('eg_queued_queries')
        .where(waiting)
        .groupBy(column)
        .select({ flow: column })
        .count({ count: '*' })
        .orderBy('count', 'desc')
        .limit(MAX_FLOWS)) as { flow: string | null; count: number }[];
      const [most] = counts;
      const own = counts.find(({ flow }) => (flow ?? '') === cutToWidth(other, WIDTH))?.count ?? 0;
      if (most === undefined || most.count < own + 2) return null;
      const newest = knex('eg_queued_queries').where(waiting).orderBy('created', 'desc').orderBy('id', 'desc').limit(1);
      const ids: string[] = await newest.where(column, most.flow).pluck('id');
      return ids[0] ?? null;
    });
    return id === null ? null : await this.get(id);
  }

  /** Records that clients ask for queries. @param reason of their wait; absent: unchanged */
  touch(ids: readonly string[], reason?: string): Promise<void> {
    const wait = reason === undefined ? {} : { reason: cutToWidth(reason, REASON_WIDTH) };
    return this.#changeAll(ids, { polled_at: this.#now, ...wait });
  }

  /** Deletes the requests of running queries: their clients have rows, or the end. */
  settle(ids: readonly string[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (const some of batches([...ids].sort(), BATCH_IDS)) await this.#settled(knex).whereIn('id', some);
    });
  }

  /** Deletes the requests of running queries without a poll for a time (milliseconds). */
  settleUnpolled(forMs: number): Promise<void> {
    return this.database.run(async (knex) => {
      await this.#settled(knex).whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs]);
    });
  }

  #settled(knex: Knex): Knex.QueryBuilder {
    return knex('eg_queued_queries')
      .where({ state: 'running' })
      .update({ state: stateAfter('settle'), request: null, changed: this.#now });
  }

  /** Waiting queries without a poll for a time (milliseconds); at most 500. */
  async abandoned(forMs: number): Promise<readonly QueuedQueryRow[]> {
    const ids: string[] = await this.database.run((knex) =>
      knex('eg_queued_queries')
        .where({ state: 'waiting' })
        .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
        .limit(BATCH_IDS)
        .pluck('id'),
    );
    return ids.length === 0 ? [] : await this.many(ids);
  }

  /** Registers a replica as alive for a time (milliseconds). */
  renew(replica: string, ttlMs: number): Promise<void> {
    return this.database.run(async (knex) => {
      const expires = knex.raw(`${this.database.dialect.clockMs} + ?`, [ttlMs]);
      await knex('eg_queue_replicas').insert({ replica, expires }).onConflict('replica').merge(['expires']);
    });
  }

  /** Leaves the waiting queries of a replica to others, and deletes its registration. */
  handOver(replica: string): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_queued_queries').where({ replica, state: 'waiting' }).update({ replica: '' });
      await knex('eg_queue_replicas').where({ replica }).delete();
    });
  }

  /** Numbers of waiting queries by routing group. */
  waitingByGroup(): Promise<ReadonlyMap<string, number>> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries')
        .where({ state: 'waiting' })
        .groupBy('routing_group')
        .select('routing_group')
        .count({ count: '*' })) as { routing_group: string; count: number }[];
      return new Map(rows.map(({ routing_group, count }) => [routing_group, count]));
    });
  }

  /** Waiting and submitting queries, oldest first. */
  list(limit: number): Promise<readonly ListedQueuedQuery[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries as q')
        .whereIn('state', ['waiting', 'submitting'])
        .orderBy(['q.created', 'q.id'])
        .limit(limit)
        .select({ ...listedColumns, reason: 'q.reason', now: knex.raw(this.database.dialect.clockMs) })) as (Omit<
        ListedQueuedQuery,
        'waitingMs'
      > & { readonly now: number })[];
      return rows.map(({ now, ...row }) => ({ ...row, waitingMs: Math.max(0, now - row.created) }));
    });
  }

  /** A text that changes with each change of the list. */
  listVersion(): Promise<string> {
    return this.database.run(async (knex) => {
      const row: Record<string, unknown> | undefined = await knex('eg_queued_queries')
        .whereIn('state', ['waiting', 'submitting'])
        .count({ count: '*' })
        .max({ created: 'created', changed: 'changed', id: 'id' })
        .first();
      return [row?.count, row?.created, row?.changed, row?.id].join(' ');
    });
  }

  /** Deletes old responses. @returns their number */
  forgetResponses(olderThanMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      return await knex('eg_queued_queries')
        .whereIn('state', ['running', 'submitted', 'failed'])
        .whereNotNull('answer')
        .whereRaw(`changed < ${this.database.dialect.clockMs} - ?`, [olderThanMs])
        .update({ answer: null });
    });
  }

  /** Deletes waiting, submitting and running queries without a poll for a time. @returns their number */
  deleteAbandoned(forMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      return await knex('eg_queued_queries')
        .whereIn('state', ['waiting', 'submitting', 'running'])
        .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
        .delete();
    });
  }

  /** Deletes rows without a poll since a time (milliseconds since 1970). */
  deleteUnpolledBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_queued_queries', 'polled_at', before, fence);
  }

  /** All steps have one event, so that they lead to one state. */
  #applyAll(steps: readonly Step[], { event, holder }: StepContext): Promise<readonly (LockedRow | null)[]> {
    const to = stateAfter(event);
    const ids = steps.map(({ id }) => id).sort();
    return this.database.transaction(async (trx) => {
      // A response needs no request, which may be long.
      const withRequest = event === 'respond' || event === 'accept' ? [] : ['request'];
      const columns = ['id', 'state', 'replica', 'answer', 'engine_id', ...withRequest];
      const rows = (await trx('eg_queued_queries')
        .whereIn('id', ids)
        .orderBy('id')
        .forUpdate()
        .select(columns)) as LockedRow[];
      const locked = new Map(rows.map((row) => [row.id, row]));
      const possible = steps.filter(({ id, change: { retry } }) => {
        const row = locked.get(id);
        const isCurrent = retry === undefined || row?.engine_id === retry.lostId;
        return row?.replica === holder && next(row.state, event) !== null && isCurrent;
      });
      const changed = event === 'retry' ? await this.#withinBudget(trx, possible) : possible;
      if (changed.length > 0) await this.#write(trx, changed, to, event);
      const those = new Set(changed);
      return steps.map((step) => {
        const row = locked.get(step.id);
        if (row === undefined) return null;
        const { replica = holder, answer = null } = step.change;
        const isRepeated = row.state === to && row.replica === replica && row.answer === answer;
        return those.has(step) || isRepeated ? row : null;
      });
    }, LOCKING);
  }

  /** Numbers of retries within a time (milliseconds) by routing group. */
  retriesByGroup(withinMs: number): Promise<ReadonlyMap<string, number>> {
    return this.database.run((knex) => this.#retries(knex, withinMs));
  }

  async #retries(knex: Knex, withinMs: number): Promise<Map<string, number>> {
    const rows = (await knex('eg_queued_queries')
      .whereRaw(`retried_at > ${this.database.dialect.clockMs} - ?`, [withinMs])
      .groupBy('retried_for')
      .select({ group: 'retried_for' })
      .count({ count: '*' })) as { group: string; count: number }[];
    return new Map(rows.map(({ group, count }) => [group, Number(count)]));
  }

  /** The steps for which their routing groups have retries left in this minute. */
  async #withinBudget(trx: Knex.Transaction, steps: readonly Step[]): Promise<readonly Step[]> {
    const used = await this.#retries(trx, MINUTE_MS);
    return steps.filter(({ change: { retry } }) => {
      if (retry === undefined) return false;
      const group = cutToWidth(retry.countedFor, WIDTH);
      const count = used.get(group) ?? 0;
      used.set(group, count + 1);
      return count < retry.perMinute;
    });
  }

  async #write(
    trx: Knex.Transaction,
    steps: readonly Step[],
    to: QueuedQueryState,
    event: QueuedQueryEvent,
  ): Promise<void> {
    const rows = trx('eg_queued_queries').whereIn(
      'id',
      steps.map(({ id }) => id),
    );
    if (to === 'cancelled') {
      await rows.delete();
      return;
    }
    const each = (value: (change: QueuedQueryChange) => string | null) =>
      trx.raw(
        `case id ${steps.map(() => 'when ? then ?').join(' ')} end`,
        steps.flatMap(({ id, change }) => [id, value(change) as string]),
      );
    const ending = {
      engine_id: each(({ engineId = null }) => (engineId === null ? null : cutToWidth(engineId, WIDTH))),
      answer: each(({ answer = null }) => answer),
      command: each(({ command = null }) => command),
      ...(event === 'accept' ? {} : { request: null }),
    };
    const retried = {
      ...{ engine_id: null, command: null, moved_at: null },
      ...{ created: this.#now, polled_at: this.#now, retried_at: this.#now },
      request: each(({ retry }) => retry?.request ?? null),
      routing_group: each(({ retry }) => cutToWidth(retry?.group ?? '', WIDTH)),
      retried_for: each(({ retry }) => cutToWidth(retry?.countedFor ?? '', WIDTH)),
    };
    const [first] = steps;
    await rows.update({
      state: to,
      changed: this.#now,
      ...(to === 'submitted' || to === 'running' || to === 'failed' ? ending : {}),
      ...(event === 'retry' ? retried : {}),
      ...(first?.change.replica === undefined ? {} : { replica: first.change.replica }),
    });
  }

  #changeActive(id: string, change: object): Promise<boolean> {
    return this.database.run(async (knex) => {
      const active = knex('eg_queued_queries').where({ id }).whereIn('state', ['waiting', 'submitting']);
      return (await active.update({ ...change, changed: this.#now })) > 0;
    });
  }

  #changeAll(ids: readonly string[], change: object): Promise<void> {
    const sorted = [...ids].sort();
    return this.database.run(async (knex) => {
      for (const some of batches(sorted, BATCH_IDS)) {
        await knex('eg_queued_queries').whereIn('id', some).update(change);
      }
    });
  }

  get #now(): Knex.Raw {
    return this.database.knex.raw(this.database.dialect.clockMs);
  }

  #insert(rows: readonly NewQueuedQuery[]): Promise<readonly undefined[]> {
    return this.database.run(async (knex) => {
      const now = knex.raw(this.database.dialect.clockMs);
      const columns = rows.map((row) => ({
        id: row.id,
        created: now,
        routing_group: cutToWidth(row.group, WIDTH),
        user_name: row.user === null ? null : cutToWidth(row.user, WIDTH),
        source: row.source === null ? null : cutToWidth(row.source, WIDTH),
        reason: cutToWidth(row.reason, REASON_WIDTH),
        request: row.request,
        replica: row.replica,
        state: row.engineId === undefined ? 'waiting' : 'running',
        engine_id: row.engineId === undefined ? null : cutToWidth(row.engineId, WIDTH),
        polled_at: now,
        changed: now,
      }));
      await knex('eg_queued_queries').insert(columns);
      return rows.map(() => undefined);
    });
  }
}

const fromRow = ({ now, expires, polledAt, ...row }: Row): QueuedQueryRow => ({
  ...row,
  unpolledMs: now - polledAt,
  waitingMs: Math.max(0, now - row.created),
  isHeld: expires !== null && expires > now,
});
