import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { cutToWidth } from './historyText.ts';
import { QueuedQueryChanges } from './queuedQueryChanges.ts';
import type {
  Fence,
  ListedQueuedQuery,
  NewQueuedQuery,
  QueuedCommand,
  QueuedQueryEnd,
  QueuedQueryRow,
} from './store.ts';

/** Rows and bytes that one statement takes at most: below the packets that MySQL takes by default. */
const BATCH_ROWS = 200;
const BATCH_BYTES = 1_500_000;
const BATCH_IDS = 500;
const WIDTH = 256;
const REASON_WIDTH = 1_024;

interface Row {
  readonly id: string;
  readonly created: number | string;
  readonly routing_group: string;
  readonly user_name: string | null;
  readonly source: string | null;
  readonly replica: string;
  readonly state: QueuedQueryRow['state'];
  readonly command: QueuedQueryRow['command'];
  readonly moved_at: number | string | null;
  readonly engine_id: string | null;
  readonly answer: string | null;
  readonly now: number | string;
  readonly expires: number | string | null;
}

/** A submission whose insert has not begun, with what waits for it. */
interface PendingPut {
  readonly row: NewQueuedQuery;
  readonly done: (error: unknown) => void;
}

/** `eg_queued_queries`, and `eg_queue_replicas`: submissions that wait, and the replicas that hold them. */
export class QueuedQueryRepository {
  private readonly database: Database;
  private readonly changes: QueuedQueryChanges;
  /** Submissions that came while others were being written: one statement takes all of them. */
  private pending: PendingPut[] = [];
  private isWriting = false;

  constructor(database: Database) {
    this.database = database;
    this.changes = new QueuedQueryChanges(database);
  }

  /** Adds one; those that come while others are being written go into one statement. */
  put(row: NewQueuedQuery): Promise<void> {
    return new Promise((resolve, reject) => {
      this.pending.push({ row, done: (error) => (error === null ? resolve() : reject(error as Error)) });
      if (!this.isWriting) void this.#writePending();
    });
  }

  get(id: string): Promise<QueuedQueryRow | null> {
    return this.database.run(async (knex) => {
      const [row] = (await this.#rows(knex).where('q.id', id)) as Row[];
      return row === undefined ? null : fromRow(row);
    });
  }

  /** Rows of those ids that there are. */
  async many(ids: readonly string[]): Promise<readonly QueuedQueryRow[]> {
    const rows: QueuedQueryRow[] = [];
    for (let start = 0; start < ids.length; start += BATCH_IDS) {
      const some = ids.slice(start, start + BATCH_IDS);
      const page = await this.database.run(
        async (knex) => (await this.#rows(knex).whereIn('q.id', [...some])) as Row[],
      );
      rows.push(...page.map(fromRow));
    }
    return rows;
  }

  /** Rows of those ids that do not wait any more, or whose replica is dead. */
  async settled(ids: readonly string[]): Promise<readonly QueuedQueryRow[]> {
    const rows: QueuedQueryRow[] = [];
    for (let start = 0; start < ids.length; start += BATCH_IDS) {
      const some = ids.slice(start, start + BATCH_IDS);
      const page = await this.database.run(
        async (knex) =>
          (await this.#rows(knex)
            .whereIn('q.id', [...some])
            .where((changed) =>
              changed
                .whereNot('q.state', 'waiting')
                .orWhereNull('r.expires')
                .orWhere('r.expires', '<=', knex.raw(this.database.dialect.clockMs)),
            )) as Row[],
      );
      rows.push(...page.map(fromRow));
    }
    return rows;
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
    return this.changes.begin(id, replica);
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

  /** Ends it, and deletes its request. */
  end(id: string, replica: string, from: 'waiting' | 'submitting', end: QueuedQueryEnd): Promise<boolean> {
    return this.changes.end(id, replica, from, end);
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
    return this.database.run(async (knex) => {
      const now = knex.raw(this.database.dialect.clockMs);
      const changed: number = await knex('eg_queued_queries')
        .where({ id, state: 'waiting' })
        .update({ moved_at: now, changed: now });
      return changed > 0;
    });
  }

  /** What is asked of a replica: commands, and the queries that were moved first, the last one at the end. */
  commands(replica: string): Promise<readonly QueuedCommand[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries')
        .where({ replica, state: 'waiting' })
        .where((either) => either.whereNotNull('command').orWhereNotNull('moved_at'))
        // However many were moved, what is to end comes first.
        .orderByRaw('case when command is null then 1 else 0 end, moved_at desc')
        .limit(BATCH_IDS)
        .select('id', 'command', 'moved_at')) as Pick<Row, 'id' | 'command' | 'moved_at'>[];
      return rows.reverse().map(({ id, command, moved_at }) => ({ id, command, movedAt: numberOf(moved_at) }));
    });
  }

  /** Writes down why some of them wait. */
  setReason(ids: readonly string[], reason: string): Promise<void> {
    const sorted = [...ids].sort();
    return this.database.run(async (knex) => {
      for (let start = 0; start < sorted.length; start += BATCH_IDS) {
        await knex('eg_queued_queries')
          .whereIn('id', sorted.slice(start, start + BATCH_IDS))
          .update({ reason: cutToWidth(reason, REASON_WIDTH) });
      }
    });
  }

  /** How many wait for a routing group at other replicas than this one, and at none. */
  countElsewhere(group: string, replica: string): Promise<number> {
    return this.database.run(async (knex) => {
      const [row] = (await knex('eg_queued_queries')
        .where({ state: 'waiting', routing_group: cutToWidth(group, WIDTH) })
        .whereNot({ replica })
        .count({ count: '*' })) as { count: number | string }[];
      return Number(row?.count ?? 0);
    });
  }

  /** Notes that their clients ask for them. */
  touch(ids: readonly string[]): Promise<void> {
    const sorted = [...ids].sort();
    return this.database.run(async (knex) => {
      for (let start = 0; start < sorted.length; start += BATCH_IDS) {
        await knex('eg_queued_queries')
          .whereIn('id', sorted.slice(start, start + BATCH_IDS))
          .update({ polled_at: knex.raw(this.database.dialect.clockMs) });
      }
    });
  }

  /** Those of the ids that no client has asked for in so many milliseconds. */
  async unpolled(ids: readonly string[], forMs: number): Promise<readonly string[]> {
    const silent: string[] = [];
    for (let start = 0; start < ids.length; start += BATCH_IDS) {
      const rows = await this.database.run(
        async (knex) =>
          (await knex('eg_queued_queries')
            .whereIn('id', ids.slice(start, start + BATCH_IDS))
            .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
            .select('id')) as { id: string }[],
      );
      silent.push(...rows.map(({ id }) => id));
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
        .count({ count: '*' })) as { routing_group: string; count: number | string }[];
      return new Map(rows.map(({ routing_group, count }) => [routing_group, Number(count)]));
    });
  }

  /** Those that wait, in the order in which they came. */
  list(limit: number): Promise<readonly ListedQueuedQuery[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_queued_queries')
        .whereIn('state', ['waiting', 'submitting'])
        .orderBy(['created', 'id'])
        .limit(limit)
        .select(
          'id',
          'created',
          'routing_group',
          'user_name',
          'source',
          'replica',
          'state',
          'reason',
          'moved_at',
          knex.raw(`${this.database.dialect.clockMs} as now`),
        )) as (Row & { readonly reason: string })[];
      return rows.map((row) => ({
        id: row.id,
        created: Number(row.created),
        waitingMs: Math.max(0, Number(row.now) - Number(row.created)),
        group: row.routing_group,
        user: row.user_name,
        source: row.source,
        replica: row.replica,
        movedAt: numberOf(row.moved_at),
        state: row.state === 'submitting' ? 'submitting' : 'waiting',
        reason: row.reason,
      }));
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

  /** Deletes answers that are older; @returns how many */
  forgetAnswers(olderThanMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      const changed = await knex('eg_queued_queries')
        .whereIn('state', ['submitted', 'failed'])
        .whereNotNull('answer')
        .whereRaw(`changed < ${this.database.dialect.clockMs} - ?`, [olderThanMs])
        .update({ answer: null });
      return changed;
    });
  }

  /** Deletes what waits, and what was being submitted, and was not asked for in so many milliseconds; @returns how many */
  deleteAbandoned(forMs: number): Promise<number> {
    return this.database.run(async (knex) => {
      const deleted = await knex('eg_queued_queries')
        .whereIn('state', ['waiting', 'submitting'])
        .whereRaw(`polled_at < ${this.database.dialect.clockMs} - ?`, [forMs])
        .delete();
      return deleted;
    });
  }

  /** Deletes rows that no client has asked for since a time (milliseconds since 1970). */
  deleteUnpolledBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_queued_queries', 'polled_at', before, fence);
  }

  /** Rows, each with the database's time and that until which its replica is known to live. */
  #rows(knex: Knex): Knex.QueryBuilder {
    return knex('eg_queued_queries as q')
      .leftJoin('eg_queue_replicas as r', 'r.replica', 'q.replica')
      .select(
        'q.id',
        'q.created',
        'q.routing_group',
        'q.user_name',
        'q.source',
        'q.replica',
        'q.state',
        'q.command',
        'q.moved_at',
        'q.engine_id',
        'q.answer',
        'r.expires',
        knex.raw(`${this.database.dialect.clockMs} as now`),
      );
  }

  /** Changes a row that is as expected, and no other: of several who try, one succeeds. */
  #change(expected: Readonly<Record<string, string>>, change: Readonly<Record<string, string | null>>) {
    return this.database.run(async (knex) => {
      const changed: number = await knex('eg_queued_queries')
        .where(expected)
        .update({ ...change, changed: knex.raw(this.database.dialect.clockMs) });
      return changed > 0;
    });
  }

  async #writePending(): Promise<void> {
    this.isWriting = true;
    // Those of the same turn of the event loop come together.
    await Promise.resolve();
    while (this.pending.length > 0) {
      const some = this.#nextBatch();
      const error = await this.#insert(some.map(({ row }) => row)).then(
        () => null,
        (reason: unknown) => reason,
      );
      for (const { done } of some) done(error);
    }
    this.isWriting = false;
  }

  #nextBatch(): readonly PendingPut[] {
    let bytes = 0;
    let count = 0;
    for (const { row } of this.pending) {
      bytes += row.request.length;
      if (count > 0 && (bytes > BATCH_BYTES || count >= BATCH_ROWS)) break;
      count++;
    }
    return this.pending.splice(0, count);
  }

  #insert(rows: readonly NewQueuedQuery[]): Promise<void> {
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
    });
  }
}

const numberOf = (value: number | string | null): number | null => (value === null ? null : Number(value));

const fromRow = (row: Row): QueuedQueryRow => ({
  id: row.id,
  created: Number(row.created),
  waitingMs: Math.max(0, Number(row.now) - Number(row.created)),
  group: row.routing_group,
  user: row.user_name,
  source: row.source,
  replica: row.replica,
  isHeld: row.expires !== null && Number(row.expires) > Number(row.now),
  state: row.state,
  command: row.command,
  movedAt: numberOf(row.moved_at),
  engineId: row.engine_id,
  answer: row.answer,
});
