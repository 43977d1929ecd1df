import type { Knex } from 'knex';
import { agedTable } from './deletion.ts';
import type { CounterChange, DecideOnCounters, LockedCounter } from './store.ts';

interface Row {
  readonly limit_key: string;
  readonly replica: string;
  readonly granted: number;
  readonly in_use: number;
  readonly waiting: number;
  readonly tokens: number | null;
  readonly filled: number | null;
  readonly expires: number;
  readonly now: number;
}

/** The replica of the row that stands for the counter itself: locked before the others are read, and it has the bucket. */
export const LOCK = '';
const MAX_WAITING = 1_000;
/** Time that a counter is kept that no one asks for, and no one gave up: its replicas died. */
const UNUSED_AFTER_MS = 3_600_000;

/** `eg_slots`: slots of counters, leased by replicas (docs/database.md#tables). */
export class SlotRepository extends agedTable('eg_slots', 'expires') {
  /**
   * Locks counters, in one transaction with what is decided on them: no other replica changes a row of theirs meanwhile, nor
   * adds one.
   * @param keys each at most 256 ASCII characters, and at most 200 of them
   */
  exchange(replica: string, keys: readonly string[], decide: DecideOnCounters): Promise<void> {
    // In one order everywhere, so that two transactions do not wait for each other.
    const sorted = [...new Set(keys)].sort();
    return this.database.transaction(async (trx) => {
      await lockCounters(trx, sorted);
      const rows = (await trx('eg_slots')
        .whereIn('limit_key', sorted)
        .select('*', trx.raw(`${this.database.dialect.clockMs} as now`))) as Row[];
      const now = rows[0]?.now ?? 0;
      await write(trx, replica, now, decide(now, countersOf(rows)));
    });
  }

  /** Counters that others than this replica wait for; of very many, some. */
  waitingElsewhere(replica: string): Promise<readonly string[]> {
    return this.database.run(async (knex) => {
      const keys: string[] = await knex('eg_slots')
        .where('waiting', '>', 0)
        .whereNot('replica', replica)
        .where('expires', '>', knex.raw(this.database.dialect.clockMs))
        .distinct()
        .limit(MAX_WAITING)
        .pluck('limit_key');
      return keys;
    });
  }
}

/** Writes the rows that stand for counters: this locks them, also those that were not there. @param keys sorted; at most 200 */
export async function lockCounters(trx: Knex.Transaction, keys: readonly string[]): Promise<void> {
  const rows = keys.map((key) => ({ limit_key: key, replica: LOCK, granted: 0, in_use: 0, waiting: 0, expires: 0 }));
  await trx('eg_slots').insert(rows).onConflict(['limit_key', 'replica']).merge(['waiting']);
}

function countersOf(rows: readonly Row[]): ReadonlyMap<string, LockedCounter> {
  const counters = new Map<string, LockedCounter>();
  for (const [key, own] of Map.groupBy(rows, (row) => row.limit_key)) {
    const { tokens = null, filled = null } = own.find(({ replica }) => replica === LOCK) ?? {};
    counters.set(key, {
      rows: own
        .filter(({ replica }) => replica !== LOCK)
        .map(({ replica, granted, in_use: inUse, waiting, expires }) => ({
          replica,
          granted,
          inUse,
          waiting,
          expires,
        })),
      bucket: tokens === null || filled === null ? null : { tokens, filled },
    });
  }
  return counters;
}

async function write(
  trx: Knex.Transaction,
  replica: string,
  now: number,
  changes: readonly CounterChange[],
): Promise<void> {
  const upserts: object[] = [];
  const locks: object[] = [];
  const deleted: [key: string, replica: string][] = [];
  for (const { key, own, expired, bucket, isUnused } of changes) {
    for (const other of expired) deleted.push([key, other]);
    if (own === null) deleted.push([key, replica]);
    else {
      const { granted, inUse, waiting, expires } = own;
      upserts.push({ limit_key: key, replica, granted, in_use: inUse, waiting, expires });
    }
    if (isUnused) deleted.push([key, LOCK]);
    else {
      const expires = Math.max(now + UNUSED_AFTER_MS, bucket?.expires ?? 0);
      const { tokens = null, filled = null } = bucket ?? {};
      locks.push({ limit_key: key, replica: LOCK, granted: 0, in_use: 0, waiting: 0, tokens, filled, expires });
    }
  }
  const into = (rows: object[], columns: string[]) =>
    rows.length === 0 ? null : trx('eg_slots').insert(rows).onConflict(['limit_key', 'replica']).merge(columns);
  await into(upserts, ['granted', 'in_use', 'waiting', 'expires']);
  await into(locks, ['tokens', 'filled', 'expires']);
  if (deleted.length > 0) await trx('eg_slots').whereIn(['limit_key', 'replica'], deleted).delete();
}
