import type { Knex } from 'knex';
import { Batcher } from './batcher.ts';
import { batches, cutToWidth } from './columns.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type {
  Fence,
  ListedQueuedQuery,
  NewQueuedQuery,
  QueuedCommand,
  QueuedQueryEnd,
  QueuedQueryRow,
} from './store.ts';

/** Bytes that one statement takes at most: below the packets that MySQL takes by default. */
const BATCH_BYTES = 1_500_000;
/** Bytes of a row without its request, so that a statement has 200 rows at most. */
const ROW_BYTES = BATCH_BYTES / 200;
const BATCH_IDS = 500;
const MAX_BEGINS = 32;
/** More users than a queue has. */
const MAX_FLOWS = 20_000;
const WIDTH = 256;
const REASON_WIDTH = 1_024;

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
type Row = Omit<QueuedQueryRow, 'waitingMs' | 'isHeld'> & { readonly now: number; readonly expires: number | null };

type Change = Readonly<Record<string, string | Knex.Raw | null>>;

interface Ending {
  readonly id: string;
  readonly end: QueuedQueryEnd;
}

/** `eg_queued_queries`, and `eg_queue_replicas`: submissions that wait, and the replicas that hold them. */
export class QueuedQueryRepository {
  private readonly database: Database;
  private readonly begins: Batcher<string, { readonly replica: string }, string | null>;
  private readonly ends: Batcher<Ending, { readonly replica: string; readonly from: string }, boolean>;
  private readonly puts: Batcher<NewQueuedQuery, null, undefined>;

  constructor(database: Database) {
    this.database = database;
    this.begins = new Batcher((ids, { replica }) => this.#beginAll(ids, replica), MAX_BEGINS);
    this.ends = new Batcher((endings, { replica, from }) => this.#endAll(endings, replica, from), BATCH_BYTES);
    this.puts = new Batcher((rows) => this.#insert(rows), BATCH_BYTES);
  }

  /** Adds one; those that come while others are being written go into one statement. */
  put(row: NewQueuedQuery): Promise<void> {
    return this.puts.add(row, null, row.id, row.request.length + ROW_BYTES);
  }

  get(id: string): Promise<QueuedQueryRow | null> {
    return this.database.run(async (knex) => {
      const [row] = (await this.#rows(knex).where('q.id', id)) as Row[];
      return row === undefined ? null : fromRow(row);
    });
  }

  /** Rows of those ids that there are. */
  many(ids: readonly string[]): Promise<readonly QueuedQueryRow[]> {
    return this.#rowsOf(ids, (rows) => rows);
  }

  /** Rows of those ids that do not wait any more, or whose replica is dead. */
  settled(ids: readonly string[]): Promise<readonly QueuedQueryRow[]> {
    const { clockMs } = this.database.dialect;
    return this.#rowsOf(ids, (rows) =>
      rows.where((changed) =>
        changed.whereNot('q.state', 'waiting').orWhereNull('r.expires').orWhereRaw(`r.expires <= ${clockMs}`),
      ),
    );
  }

  /** Gives one that waits to another replica, if it is held by `from`. */
  adopt(id: string, from: string, to: string): Promise<boolean> {
    return this.#change({ id, state: 'waiting', replica: from }, { replica: to });
  }

  /**
   * `waiting` becomes `submitting`: from then on a cluster may have it. Those that come while others are being written go together.
   * @returns its sealed request; null where it does not wait there any more
   */
  begin(id: string, replica: string): Promise<string | null> {
    return this.begins.add(id, { replica }, id, 1);
  }

  /** The sealed request of one that the replica holds; null for none. */
  request(id: string, replica: string): Promise<string | null> {
    return this.database.run(async (knex) => {
      const row: { request: string | null } | undefined = await knex('eg_queued_queries')
        .where({ id, replica })
        .first('request');
      return row?.request ?? null;
    });
  }

  /** `submitting` becomes `waiting` again, with its place: no cluster has it. */
  putBack(id: string, replica: string): Promise<boolean> {
    return this.#change({ id, state: 'submitting', replica }, { state: 'waiting' });
  }

  /** Ends it, and deletes its request. Those that come while others are being written go together. */
  end(id: string, replica: string, from: 'waiting' | 'submitting', end: QueuedQueryEnd): Promise<boolean> {
    return this.ends.add({ id, end }, { replica, from }, id, (end.answer?.length ?? 0) + ROW_BYTES);
  }

  /** Ends one that waits with a response for its client, and has the replica that holds it leave it. */
  displace(id: string, replica: string, response: string): Promise<boolean> {
    return this.#change(
      { id, state: 'waiting', replica },
      { state: 'failed', command: 'displaced', request: null, answer: response },
    );
  }

  async forgetCommand(id: string): Promise<void> {
    await this.#changeAll([id], { command: null });
  }

  /** Deletes one that waits. */
  remove(id: string): Promise<boolean> {
    return this.database.run(async (knex) => {
      const deleted = await knex('eg_queued_queries').where({ id, state: 'waiting' }).delete();
      return deleted > 0;
    });
  }

  /** Asks the replica that holds a waiting one for something. */
  setCommand(id: string, command: 'drop' | 'kill'): Promise<boolean> {
    return this.#change({ id, state: 'waiting' }, { command });
  }

  /** Notes that a waiting one comes before all others of its group, also those that were moved before; false where it does not wait. */
  moveFirst(id: string): Promise<boolean> {
    return this.#change({ id, state: 'waiting' }, { moved_at: this.#now });
  }

  /** What is asked of a replica: commands, and the queries that were moved first, the last one at the end. */
  commands(replica: string): Promise<readonly QueuedCommand[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries')
        .where({ replica })
        .where((either) =>
          either
            .where({ state: 'failed', command: 'displaced' })
            .orWhere((waiting) =>
              waiting
                .where({ state: 'waiting' })
                .where((wanted) => wanted.whereNotNull('command').orWhereNotNull('moved_at')),
            ),
        )
        // However many were moved, what is to end comes first.
        .orderByRaw('case when command is null then 1 else 0 end, moved_at desc')
        .limit(BATCH_IDS)
        .select({ id: 'id', command: 'command', movedAt: 'moved_at' })) as QueuedCommand[];
      return rows.reverse();
    });
  }

  /** Writes down why some of them wait. */
  setReason(ids: readonly string[], reason: string): Promise<void> {
    return this.#changeAll(ids, { reason: cutToWidth(reason, REASON_WIDTH) });
  }

  /** The newest waiting query of the user or source with the most of a group, if these are two more than those of another one. */
  newestOfMost(group: string, by: 'user' | 'source', other: string): Promise<QueuedQueryRow | null> {
    const column = by === 'user' ? 'q.user_name' : 'q.source';
    const waiting = { 'q.state': 'waiting', 'q.routing_group': cutToWidth(group, WIDTH) };
    return this.database.run(async (knex) => {
      const counts = (await knex('eg_queued_queries as q')
        .where(waiting)
        .groupBy(column)
        .select({ flow: column })
        .count({ count: '*' })
        .orderBy('count', 'desc')
        .limit(MAX_FLOWS)) as { flow: string | null; count: number }[];
      const [most] = counts;
      const own = counts.find(({ flow }) => (flow ?? '') === cutToWidth(other, WIDTH))?.count ?? 0;
      if (most === undefined || most.count < own + 2) return null;
      const rows = this.#rows(knex).where(waiting).orderBy('q.created', 'desc').orderBy('q.id', 'desc').limit(1);
      const [row] = (await (most.flow === null ? rows.whereNull(column) : rows.where(column, most.flow))) as Row[];
      return row === undefined ? null : fromRow(row);
    });
  }

  /** Notes that their clients ask for them. */
  touch(ids: readonly string[]): Promise<void> {
    return this.#changeAll(ids, { polled_at: this.#now });
  }

  /** Those of the ids that no client has asked for in so many milliseconds. */
  async unpolled(ids: readonly string[], forMs: number): Promise<readonly string[]> {
    const silent: string[] = [];
    for (const some of batches(ids, BATCH_IDS)) {
      const page: string[] = await this.database.run((knex) =>
        knex('eg_queued_queries')
          .whereIn('id', some)
          .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
          .pluck('id'),
      );
      silent.push(...page);
    }
    return silent;
  }

  /** A replica lives, for so many milliseconds more. */
  renew(replica: string, ttlMs: number): Promise<void> {
    return this.database.run(async (knex) => {
      const expires = knex.raw(`${this.database.dialect.clockMs} + ?`, [ttlMs]);
      await knex('eg_queue_replicas').insert({ replica, expires }).onConflict('replica').merge(['expires']);
    });
  }

  /** A replica ends: what waits there is free for others. */
  handOver(replica: string): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_queued_queries').where({ replica, state: 'waiting' }).update({ replica: '' });
      await knex('eg_queue_replicas').where({ replica }).delete();
    });
  }

  /** How many wait, by routing group. */
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

  /** Those that wait, in the order in which they came. */
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

  /** A text that is another one whenever one waits that did not, or no longer, or was moved first, or is held elsewhere. */
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

  /** Deletes older responses; @returns how many */
  forgetResponses(olderThanMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      return await knex('eg_queued_queries')
        .whereIn('state', ['submitted', 'failed'])
        .whereNotNull('answer')
        .whereRaw(`changed < ${this.database.dialect.clockMs} - ?`, [olderThanMs])
        .update({ answer: null });
    });
  }

  /** Deletes what waits, and what was being submitted, and was not asked for in so many milliseconds; @returns how many */
  deleteAbandoned(forMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      return await knex('eg_queued_queries')
        .whereIn('state', ['waiting', 'submitting'])
        .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
        .delete();
    });
  }

  /** Deletes rows that no client has asked for since a time (milliseconds since 1970). */
  deleteUnpolledBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_queued_queries', 'polled_at', before, fence);
  }

  async #rowsOf(
    ids: readonly string[],
    narrow: (rows: Knex.QueryBuilder) => Knex.QueryBuilder,
  ): Promise<readonly QueuedQueryRow[]> {
    const rows: QueuedQueryRow[] = [];
    for (const some of batches(ids, BATCH_IDS)) {
      const page = await this.database.run(
        async (knex) => (await narrow(this.#rows(knex).whereIn('q.id', some))) as Row[],
      );
      rows.push(...page.map(fromRow));
    }
    return rows;
  }

  #beginAll(ids: readonly string[], replica: string): Promise<readonly (string | null)[]> {
    return this.database.run(async (knex) => {
      const waiting = (await knex('eg_queued_queries')
        .whereIn('id', [...ids].sort())
        .where({ state: 'waiting', replica })
        .select('id', 'request')) as { readonly id: string; readonly request: string | null }[];
      const begun = new Map(waiting.map(({ id, request }) => [id, request]));
      if (begun.size === 0) return ids.map(() => null);
      const those = [...begun.keys()].sort();
      const changed = await knex('eg_queued_queries')
        .whereIn('id', those)
        .where({ state: 'waiting', replica })
        .update({ state: 'submitting', changed: knex.raw(this.database.dialect.clockMs) });
      if (changed < begun.size) {
        // Some were cancelled or taken over in between. No other group of this replica was at work: the others were changed here.
        const rows = (await knex('eg_queued_queries')
          .whereIn('id', those)
          .where({ state: 'submitting', replica })
          .select('id')) as { readonly id: string }[];
        const own = new Set(rows.map(({ id }) => id));
        for (const id of those) if (!own.has(id)) begun.delete(id);
      }
      return ids.map((id) => begun.get(id) ?? null);
    });
  }

  #endAll(endings: readonly Ending[], replica: string, from: string): Promise<readonly boolean[]> {
    const ids = endings.map(({ id }) => id).sort();
    return this.database.run(async (knex) => {
      const each = (value: (end: QueuedQueryEnd) => string | null) =>
        knex.raw(
          `case id ${endings.map(() => 'when ? then ?').join(' ')} end`,
          endings.flatMap(({ id, end }) => [id, value(end) as string]),
        );
      const changed = await knex('eg_queued_queries')
        .whereIn('id', ids)
        .where({ state: from, replica })
        .update({
          state: each(({ state }) => state),
          engine_id: each(({ engineId }) => cut(engineId)),
          answer: each(({ answer }) => answer),
          ...{ request: null, command: null, changed: knex.raw(this.database.dialect.clockMs) },
        });
      if (changed === 0 || changed === endings.length) return endings.map(() => changed > 0);
      // Each response is sealed with a separate number: a row that has it was changed here.
      const rows: { readonly id: string; readonly answer: string | null }[] = await knex('eg_queued_queries')
        .whereIn('id', ids)
        .where({ replica })
        .whereIn('state', ['submitted', 'failed'])
        .select('id', 'answer');
      const stored = new Map(rows.map(({ id, answer }) => [id, answer]));
      return endings.map(({ id, end }) => stored.get(id) === end.answer);
    });
  }

  /** Rows, each with the database's time and that until which its replica is known to live. */
  #rows(knex: Knex): Knex.QueryBuilder {
    return knex('eg_queued_queries as q')
      .leftJoin('eg_queue_replicas as r', 'r.replica', 'q.replica')
      .select({
        ...listedColumns,
        ...{ command: 'q.command', engineId: 'q.engine_id', answer: 'q.answer', expires: 'r.expires' },
        now: knex.raw(this.database.dialect.clockMs),
      });
  }

  /** Changes a row that is as expected, and no other: of several who try, one succeeds. */
  #change(expected: Readonly<Record<string, string>>, change: Change): Promise<boolean> {
    return this.database.run(async (knex) => {
      const changed: number = await knex('eg_queued_queries')
        .where(expected)
        .update({ ...change, changed: this.#now });
      return changed > 0;
    });
  }

  #changeAll(ids: readonly string[], change: Change): Promise<void> {
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
        state: 'waiting',
        polled_at: now,
        changed: now,
      }));
      await knex('eg_queued_queries').insert(columns);
      return rows.map(() => undefined);
    });
  }
}

const fromRow = ({ now, expires, ...row }: Row): QueuedQueryRow => ({
  ...row,
  waitingMs: Math.max(0, now - row.created),
  isHeld: expires !== null && expires > now,
});

function cut(engineId: string | null): string | null {
  return engineId === null ? null : cutToWidth(engineId, WIDTH);
}
