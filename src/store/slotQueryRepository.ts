import type { Knex } from 'knex';
import { batches } from './columns.ts';
import { agedTable } from './deletion.ts';
import { LATE_MS } from './endedQueryRepository.ts';
import { cutToWidth } from './historyText.ts';
import { LOCK, lockCounters } from './slotRepository.ts';
import type { SlotQuery, Takeover, TakeoverOptions } from './store.ts';

const BATCH = 200;
const WIDTH = 256;
/** Clocks of engines, which date ids, and of the database may differ by so much. */
const CLOCK_SKEW_MS = 10_000;
/** Longest time from a replica's last beat to the last query that it started: it takes nothing without a lease. */
const BEAT_AGE_MS = 20_000;
/**
 * Engines give up queries that no one asks for in five minutes; the time of the last request is renewed each minute.
 */
const FOLLOWED_MS = 370_000;
/** A replica has queries before its first beat, but not for so long. */
const NO_SLOTS_MS = 60_000;

interface QueryRow {
  readonly query_id: string;
  readonly cluster: string;
  readonly limit_keys: string;
}

interface SlotsRow {
  readonly limit_key: string;
  readonly granted: number;
  readonly in_use: number;
  readonly waiting: number;
  readonly expires: number;
}

/** `eg_slot_queries`: queries that use slots (docs/database.md#tables). */
export class SlotQueryRepository extends agedTable('eg_slot_queries', 'noted') {
  /** Notes queries of a replica; those that are there stay as they are. */
  put(replica: string, queries: readonly SlotQuery[]): Promise<void> {
    const { clockMs } = this.database.dialect;
    const fitted = new Map(queries.map((query) => [cutToWidth(query.queryId, WIDTH), query]));
    return this.database.run(async (knex) => {
      for (const some of batches([...fitted], BATCH)) {
        const rows = some.map(([query_id, { cluster, keys }]) => ({
          query_id,
          cluster: cutToWidth(cluster, WIDTH),
          replica,
          limit_keys: keys.join(' '),
          noted: knex.raw(clockMs),
        }));
        await knex('eg_slot_queries').insert(rows).onConflict('query_id').ignore();
      }
    });
  }

  /** Deletes queries of a replica; returns how many of them it had. */
  remove(replica: string, queryIds: readonly string[]): Promise<number> {
    const fitted = queryIds.map((queryId) => cutToWidth(queryId, WIDTH)).sort();
    return this.database.run(async (knex) => {
      let removed = 0;
      for (const some of batches(fitted, BATCH))
        removed += await knex('eg_slot_queries').whereIn('query_id', some).where('replica', replica).delete();
      return removed;
    });
  }

  ofReplica(replica: string): Promise<readonly SlotQuery[]> {
    return this.database.run(async (knex) =>
      ((await knex('eg_slot_queries').where('replica', replica)) as QueryRow[]).map(queryOf),
    );
  }

  /** Replicas other than this one all of whose slots have been over for a time (milliseconds), and those without slots that have queries. */
  dead(replica: string, graceMs: number): Promise<readonly string[]> {
    const { clockMs } = this.database.dialect;
    return this.database.run(async (knex) => {
      const over: string[] = await knex('eg_slots')
        .whereNotIn('replica', [LOCK, replica])
        .groupBy('replica')
        .havingRaw(`max(expires) <= ${clockMs} - ?`, [graceMs])
        .pluck('replica');
      const lost: string[] = await knex('eg_slot_queries as queries')
        .whereNot('queries.replica', replica)
        .whereNotExists(knex('eg_slots').whereRaw('eg_slots.replica = queries.replica').select(knex.raw('1')))
        .groupBy('queries.replica')
        .havingRaw(`max(queries.noted) <= ${clockMs} - ?`, [NO_SLOTS_MS])
        .pluck('queries.replica');
      return [...over, ...lost];
    });
  }

  /**
   * Gives what a dead replica left to another one, in one transaction with locks on all of its counters: one replica alone
   * gets it.
   * @returns the queries that the heir counts now, and the mark of `EndedQueryRepository` from which on their ends are to be
   *   heard; null where the replica is alive
   */
  takeOver(
    options: TakeoverOptions,
  ): Promise<{ readonly queries: readonly SlotQuery[]; readonly mark: number } | null> {
    const { dead, successor, graceMs, decide } = options;
    return this.database.transaction(async (trx) => {
      const keys: string[] = (await trx('eg_slots').where('replica', dead).pluck('limit_key')).sort();
      for (const some of batches(keys, BATCH)) await lockCounters(trx, some);
      const now = await this.database.time(trx);
      const slots = (await trx('eg_slots').where('replica', dead)) as SlotsRow[];
      const locked = new Set(keys);
      // It lives: it has renewed a row, or taken another counter.
      if (slots.some((row) => row.expires > now - graceMs || !locked.has(row.limit_key))) return null;
      const { queries, over } = await this.notedBy(trx, dead);
      const expired = Math.max(0, ...slots.map((row) => row.expires));
      const followed = expired === 0 ? new Map<string, number>() : await this.followed(trx, expired, now);
      const takeover = decide({
        slots: slots.map((row) => ({ key: row.limit_key, granted: row.granted })),
        queries,
        over,
        followed,
      });
      const others = [...takeover.adopted.keys()].filter((key) => !locked.has(key)).sort();
      for (const some of batches(others, BATCH)) await lockCounters(trx, some);
      await adopt(trx, options, now, takeover);
      await leaveToDead(trx, dead, slots, takeover);
      if (queries.length > 0) await trx('eg_slot_queries').where('replica', dead).update({ replica: successor });
      return { queries, mark: now - LATE_MS };
    });
  }

  /** Ends the time of a replica's slots, so that others take its queries over immediately. */
  leave(replica: string, graceMs: number): Promise<void> {
    const { clockMs } = this.database.dialect;
    return this.database.run(async (knex) => {
      await knex('eg_slots')
        .where('replica', replica)
        .update({ expires: knex.raw(`${clockMs} - ?`, [graceMs + 1]) });
    });
  }

  /** Queries of a replica; those whose end another one has seen are deleted. */
  private async notedBy(
    trx: Knex.Transaction,
    replica: string,
  ): Promise<{ readonly queries: readonly SlotQuery[]; readonly over: readonly SlotQuery[] }> {
    const rows = (await trx('eg_slot_queries').where('replica', replica).forUpdate()) as QueryRow[];
    const ended = new Set<string>();
    for (const some of batches(rows, BATCH)) {
      const ids = some.map((row) => row.query_id);
      for (const id of await trx('eg_ended_queries').whereIn('query_id', ids).pluck('query_id')) ended.add(id);
    }
    for (const some of batches([...ended], BATCH)) await trx('eg_slot_queries').whereIn('query_id', some).delete();
    return {
      queries: rows.filter((row) => !ended.has(row.query_id)).map(queryOf),
      over: rows.filter((row) => ended.has(row.query_id)).map(queryOf),
    };
  }

  /**
   * Number of queries that clients follow and no replica has recorded, by cluster, of those that began while a replica
   * was running.
   */
  private async followed(trx: Knex.Transaction, expired: number, now: number): Promise<ReadonlyMap<string, number>> {
    const rows = (await trx('eg_running_queries as running')
      .whereBetween('running.started', [expired - BEAT_AGE_MS - CLOCK_SKEW_MS, expired + CLOCK_SKEW_MS])
      .where('running.last_seen', '>=', now - FOLLOWED_MS)
      .whereNotExists(
        trx('eg_slot_queries').whereRaw('eg_slot_queries.query_id = running.query_id').select(trx.raw('1')),
      )
      .whereNotExists(
        trx('eg_ended_queries').whereRaw('eg_ended_queries.query_id = running.query_id').select(trx.raw('1')),
      )
      .groupBy('running.cluster')
      .select('running.cluster as cluster')
      .count({ count: '*' })) as { cluster: string; count: number }[];
    return new Map(rows.map(({ cluster, count }) => [cluster, count]));
  }
}

/** The successor's rows, with what it gets; they are locked with their counters. */
async function adopt(
  trx: Knex.Transaction,
  { successor, leaseMs }: TakeoverOptions,
  now: number,
  { adopted }: Takeover,
): Promise<void> {
  const keys = [...adopted.keys()].sort();
  for (const some of batches(keys, BATCH)) {
    const own = (await trx('eg_slots').where('replica', successor).whereIn('limit_key', some)) as SlotsRow[];
    const rows = some.map((limit_key) => {
      const more = adopted.get(limit_key) ?? 0;
      const { granted = 0, in_use = 0, waiting = 0 } = own.find((row) => row.limit_key === limit_key) ?? {};
      const expires = now + leaseMs;
      return { limit_key, replica: successor, granted: granted + more, in_use: in_use + more, waiting, expires };
    });
    await trx('eg_slots')
      .insert(rows)
      .onConflict(['limit_key', 'replica'])
      .merge(['granted', 'in_use', 'waiting', 'expires']);
  }
}

/** The dead replica's rows: what continues to count, or nothing. */
async function leaveToDead(
  trx: Knex.Transaction,
  dead: string,
  slots: readonly SlotsRow[],
  { left }: Takeover,
): Promise<void> {
  const unused: string[] = [];
  for (const { limit_key, granted } of slots) {
    const count = left.get(limit_key) ?? 0;
    if (count === 0) unused.push(limit_key);
    else if (count !== granted) {
      await trx('eg_slots').where({ limit_key, replica: dead }).update({ granted: count, in_use: count, waiting: 0 });
    }
  }
  for (const some of batches(unused, BATCH))
    await trx('eg_slots').where('replica', dead).whereIn('limit_key', some).delete();
}

function queryOf(row: QueryRow): SlotQuery {
  const { query_id: queryId, cluster, limit_keys: keys } = row;
  return { queryId, cluster, keys: keys === '' ? [] : keys.split(' ') };
}
