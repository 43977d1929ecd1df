import type { Knex } from 'knex';
import { agedTable } from './deletion.ts';
import type { CounterChange, DecideOnCounters, LockedCounter, SlotRow, TokenBucket } from './store.ts';

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly limit_key: string;
  readonly replica: string;
  readonly granted: number;
  readonly in_use: number;
  readonly waiting: number;
  readonly tokens: number | string | null;
  readonly filled: number | string | null;
  readonly expires: number | string;
  readonly now: number | string;
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
      const now = Number(rows[0]?.now);
      await write(trx, replica, now, decide(now, countersOf(rows)));
    });
  }

  /** Counters that others than this replica wait for; of very many, some. */
  waitingElsewhere(replica: string): Promise<readonly string[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_slots')
        .where('waiting', '>', 0)
        .whereNot('replica', replica)
        .where('expires', '>', knex.raw(this.database.dialect.clockMs))
        .distinct('limit_key')
        .limit(MAX_WAITING)) as Pick<Row, 'limit_key'>[];
      return rows.map((row) => row.limit_key);
    });
  }
}

/** Writes the rows that stand for counters: this locks them, also those that were not there. @param keys sorted; at most 200 */
export async function lockCounters(trx: Knex.Transaction, keys: readonly string[]): Promise<void> {
  const rows = keys.map((key) => ({ limit_key: key, replica: LOCK, granted: 0, in_use: 0, waiting: 0, expires: 0 }));
  await trx('eg_slots').insert(rows).onConflict(['limit_key', 'replica']).merge(['waiting']);
}

function countersOf(rows: readonly Row[]): ReadonlyMap<string, LockedCounter> {
  const counters = new Map<string, { rows: SlotRow[]; bucket: TokenBucket | null }>();
  for (const row of rows) {
    let counter = counters.get(row.limit_key);
    if (counter === undefined) {
      counter = { rows: [], bucket: null };
      counters.set(row.limit_key, counter);
    }
    const { replica, granted, in_use: inUse, waiting, tokens, filled } = row;
    if (replica !== LOCK) counter.rows.push({ replica, granted, inUse, waiting, expires: Number(row.expires) });
    else if (tokens !== null && filled !== null) counter.bucket = { tokens: Number(tokens), filled: Number(filled) };
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
