import type { Knex } from 'knex';
import { batches, cutToWidth } from './columns.ts';
import type { Database } from './database.ts';
import { prepared } from './knexClients.ts';
import { CHANGE_FUNCTION } from './schema.ts';
import type { CounterPart, DecideOnCounters, LimitCounter, RunningSlot, SlotBinding } from './store.ts';

const BATCH = 500;
const WIDTH = 256;
/** Locks of what is read, and none of gaps between rows. */
const LOCKING: Knex.TransactionConfig = { isolationLevel: 'read committed' };
/** Times that counters are inserted which are removed in the moment before they are locked. */
const MAX_ATTEMPTS = 5;
/** A new counter stays for a minute, so that it is not deleted before it is locked. */
const FRESH_MS = 60_000;

interface CounterRow {
  readonly limit_key: string;
  readonly in_use: number;
  readonly tokens: number | null;
  readonly refilled: number;
  readonly expires: number;
  readonly now: number;
}

/** Changes of slots on a replica since its last statement. */
export interface SlotChanges {
  readonly bindings: readonly SlotBinding[];
  readonly released: readonly string[];
  /** Ended queries, by their own slot where this replica has it. */
  readonly ends: readonly {
    readonly queryId: string;
    readonly slotId: string | null;
    readonly endsTransaction: boolean;
  }[];
  /** New slots, in order: each has the first of its options whose counters all have capacity. */
  readonly asks: readonly SlotAsk[];
}

export interface SlotAsk {
  readonly slotId: string;
  readonly options: readonly (readonly LimitedPart[])[];
}

/** Part of a counter within its limit; null: regardless of limits. */
export type LimitedPart = CounterPart & { readonly limit: number | null };

export const noChanges: SlotChanges = { bindings: [], released: [], ends: [], asks: [] };

export interface ChangedSlots {
  /** Place of the option of each new slot; -1: it has none. */
  readonly chosen: readonly number[];
  /** Counters of all slots afterwards. */
  readonly counters: ReadonlyMap<string, LimitCounter>;
  /** Bindings without a slot. */
  readonly unbound: readonly string[];
  /** Ended queries without a slot. */
  readonly unknown: ReadonlySet<string>;
  readonly removed: number;
}

interface SlotRow {
  readonly slot_id: string;
  readonly query_id: string | null;
  readonly transaction_id: string | null;
  readonly cluster: string | null;
  readonly limit_keys: string;
  readonly seen: number;
  readonly now: number;
}

/**
 * `eg_limit_counters` and `eg_running` (docs/architecture.md#limits). Who removes a row of `eg_running` has locked its
 * counters before, in the order of keys.
 */
export class LimitCounterRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  /**
   * Removes slots, then decides on counters, in one transaction that has locked all of them.
   * @param released rows to remove; those that are gone change nothing
   * @param keys counters of the decision, ASCII without white space
   * @returns the counters afterwards
   */
  async change(
    replica: string,
    released: readonly Pick<RunningSlot, 'slotId' | 'parts'>[],
    keys: Iterable<string>,
    decide: DecideOnCounters = () => [],
  ): Promise<ReadonlyMap<string, LimitCounter>> {
    const sorted = [...new Set([...keys, ...released.flatMap(({ parts }) => parts.map(({ key }) => key))])].sort();
    return await this.#withCounters(sorted, () =>
      this.database.transaction((trx) => this.#changeLocked(trx, replica, released, sorted, decide, sorted), LOCKING),
    );
  }

  /** Does work on counters; inserts those that have no row as long as the work returns null. */
  async #withCounters<T>(
    sorted: readonly string[],
    work: (sorted: readonly string[]) => Promise<T | null>,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      const done = await work(sorted);
      if (done !== null) return done;
      if (attempt === MAX_ATTEMPTS) throw new Error('counters of limits disappear');
      await this.#insert(sorted);
    }
  }

  /** Makes all changes, in one statement on PostgreSQL. */
  async changeAtOnce(replica: string, changes: SlotChanges): Promise<ChangedSlots> {
    const { bindings, released, ends, asks } = changes;
    const fitted = (id: string) => cutToWidth(id, WIDTH);
    if (this.database.dialect.name !== 'postgresql') {
      const keys = asks.flatMap(({ options }) => options.flatMap((parts) => parts.map(({ key }) => key)));
      return await this.#withCounters([...new Set(keys)].sort(), (wanted) =>
        this.#changeInTransaction(replica, changes, wanted),
      );
    }
    const bound = bindings.map((one) => ({ ...one, queryId: fitted(one.queryId), cluster: fitted(one.cluster) }));
    const values = [
      ends.map((end) => ({ ...end, queryId: fitted(end.queryId) })),
      released,
      asks.map(({ slotId, options }) => ({
        id: slotId,
        options: options.map((parts) => parts.map(({ key, amount = 1, limit }) => ({ key, amount, most: limit }))),
      })),
      ...[bound, replica],
    ].map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
    const call = `select ${CHANGE_FUNCTION}(cast(? as json), cast(? as json), cast(? as json), cast(? as json), ?) as changed`;
    const { rows } = await this.database.run((knex) => knex.raw(call, values).options(prepared));
    const row = rows[0].changed as { chosen: number[]; removed: number } & Record<
      'counters' | 'bound' | 'found',
      never[] | null
    >;
    const present = new Set<string>(row.bound ?? []);
    const hits = new Set<string>(row.found ?? []);
    return {
      chosen: row.chosen,
      counters: new Map(((row.counters ?? []) as CounterRow[]).map((one) => [one.limit_key, toCounter(one)])),
      unbound: bindings.flatMap(({ slotId }) => (present.has(slotId) ? [] : [slotId])),
      unknown: new Set(ends.flatMap(({ queryId }) => (hits.has(fitted(queryId)) ? [] : [queryId]))),
      removed: row.removed,
    };
  }

  /** The counters of those keys that have a row. */
  async counters(keys: readonly string[]): Promise<ReadonlyMap<string, LimitCounter>> {
    const counters = new Map<string, LimitCounter>();
    for (const some of batches(keys, BATCH)) {
      const rows = await this.database.run(
        async (knex) => (await knex('eg_limit_counters').whereIn('limit_key', some)) as CounterRow[],
      );
      for (const row of rows) counters.set(row.limit_key, toCounter(row));
    }
    return counters;
  }

  #changeInTransaction(
    replica: string,
    { bindings, released, ends, asks }: SlotChanges,
    wanted: readonly string[],
  ): Promise<ChangedSlots | null> {
    const bySlot = new Map(ends.flatMap((end) => (end.slotId === null ? [] : [[end.slotId, end] as const])));
    const byQuery = new Map(
      ends.flatMap((end) => (end.slotId === null ? [[cutToWidth(end.queryId, WIDTH), end] as const] : [])),
    );
    return this.database.transaction(async (trx) => {
      const rows: RunningSlot[] = [];
      for (const [column, ids] of [
        ['slot_id', [...bySlot.keys(), ...released]],
        ['query_id', [...byQuery.keys()]],
      ] as const)
        for (const some of batches(ids, BATCH))
          rows.push(...(await this.#rows(trx, (all) => all.whereIn(column, some))));
      const endOf = ({ slotId, queryId }: RunningSlot) => bySlot.get(slotId) ?? byQuery.get(queryId ?? '');
      const stays = (row: RunningSlot) => row.transactionId !== null && endOf(row)?.endsTransaction === false;
      const removals = rows.filter((row) => !stays(row));
      const keys = new Set([...wanted, ...removals.flatMap(({ parts }) => parts.map(({ key }) => key))]);
      const chosen: number[] = [];
      const decide: DecideOnCounters = (_now, locked) =>
        asks.flatMap(({ slotId, options }) => {
          const counterOf = (key: string) => locked.get(key) as LimitCounter;
          const fits = ({ key, amount = 1, limit }: LimitedPart) =>
            limit === null || counterOf(key).inUse + amount <= limit;
          const index = options.findIndex((parts) => parts.every(fits));
          chosen.push(index);
          const parts = options[index] ?? [];
          for (const { key, amount = 1 } of parts) counterOf(key).inUse += amount;
          return parts.length === 0 ? [] : { slotId, parts };
        });
      const counters = await this.#changeLocked(trx, replica, removals, [...keys].sort(), decide, wanted);
      if (counters === null) return null;
      const idle = rows.filter(stays).map(({ slotId }) => slotId);
      for (const some of batches(idle, BATCH))
        await trx('eg_running').whereIn('slot_id', some).update({ query_id: null, seen: this.#now });
      const unbound: string[] = [];
      for (const { slotId, queryId, cluster } of bindings.toSorted((one, other) =>
        one.slotId < other.slotId ? -1 : 1,
      )) {
        const binding = { query_id: cutToWidth(queryId, WIDTH), cluster: cutToWidth(cluster, WIDTH), seen: this.#now };
        const ofSlot = () => trx('eg_running').where('slot_id', slotId);
        // MySQL does not count a row that has these values.
        if ((await ofSlot().update(binding)) === 0 && (await ofSlot().first('slot_id')) === undefined)
          unbound.push(slotId);
      }
      const ofRows = new Set(rows.map(endOf));
      const unknown = new Set(ends.filter((end) => !ofRows.has(end)).map(({ queryId }) => queryId));
      return { chosen, counters, unbound, unknown, removed: removals.length };
    }, LOCKING);
  }

  /** Rows of queries. */
  ofQueries(queryIds: readonly string[]): Promise<readonly RunningSlot[]> {
    const cut = queryIds.map((queryId) => cutToWidth(queryId, WIDTH));
    return this.database.run((knex) => this.#rows(knex, (rows) => rows.whereIn('query_id', cut)));
  }

  all(): Promise<readonly RunningSlot[]> {
    return this.database.run((knex) => this.#rows(knex, (rows) => rows));
  }

  /** From now on the slot of a query is that of the transaction which the query began. */
  attach(queryId: string, transactionId: string): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_running').where('query_id', cutToWidth(queryId, WIDTH)).update({ transaction_id: transactionId });
    });
  }

  /** Gives the slot of a transaction to a statement, if no other one has it. @returns null if there is no such slot */
  take(transactionId: string, statement: string): Promise<RunningSlot | null> {
    return this.database.run(async (knex) => {
      const idle = { transaction_id: transactionId, query_id: null };
      const changed = await knex('eg_running').where(idle).update({ query_id: statement, seen: this.#now });
      return changed === 0 ? null : ((await this.ofQueries([statement]))[0] ?? null);
    });
  }

  /** Records that a replica has these slots, or served these queries. */
  see(column: 'slot_id' | 'query_id', ids: readonly string[]): Promise<void> {
    return this.#update(column, ids, { seen: this.#now });
  }

  /**
   * Corrects counters by the rows, and deletes unused ones.
   * @returns the number of corrected counters
   */
  async recount(): Promise<number> {
    const { clockMs } = this.database.dialect;
    const wrong = await this.database.run(async (knex) => await differences(knex, null));
    let corrected = 0;
    if (wrong.size > 0) {
      corrected = await this.database.transaction(async (trx) => {
        const { counters } = await this.#lock(trx, [...wrong.keys()].sort());
        const still = await differences(trx, counters);
        const changed = [...counters].filter(([key]) => still.has(key));
        await writeCounters(
          trx,
          changed.map(([key, counter]) => [key, { ...counter, inUse: still.get(key) ?? 0 }]),
        );
        return changed.length;
      }, LOCKING);
    }
    await this.database.run(async (knex) => {
      await knex('eg_limit_counters').where('in_use', 0).whereRaw(`expires <= ${clockMs}`).delete();
    });
    return corrected;
  }

  /** @param sorted keys of the counters @returns the counters afterwards; null: a needed one has no row, and nothing is changed */
  async #changeLocked(
    trx: Knex.Transaction,
    replica: string,
    released: readonly Pick<RunningSlot, 'slotId' | 'parts'>[],
    sorted: readonly string[],
    decide: DecideOnCounters,
    needed: readonly string[],
  ): Promise<ReadonlyMap<string, LimitCounter> | null> {
    const { now, counters } = await this.#lock(trx, sorted);
    if (needed.some((key) => !counters.has(key))) return null;
    const before = new Map([...counters].map(([key, counter]) => [key, { ...counter }]));
    await removeSlots(trx, released, counters);
    const slots = decide(now, counters);
    await writeCounters(
      trx,
      [...counters].filter(([key, counter]) => !isSame(counter, before.get(key))),
    );
    const rows = slots.map(({ slotId, parts }) => ({
      ...{ slot_id: slotId, limit_keys: partsText(parts), replica, acquired: now, seen: now },
    }));
    for (const some of batches(rows, BATCH)) await trx('eg_running').insert(some);
    return counters;
  }

  async #lock(trx: Knex.Transaction, sorted: readonly string[]) {
    const rows = (await trx('eg_limit_counters')
      .whereIn('limit_key', sorted)
      .orderBy('limit_key')
      .forUpdate()
      .select('*', trx.raw(`${this.database.dialect.clockMs} as now`))) as CounterRow[];
    return { now: rows[0]?.now ?? 0, counters: new Map(rows.map((row) => [row.limit_key, toCounter(row)])) };
  }

  #insert(keys: readonly string[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (const some of batches(keys, BATCH)) {
        const rows = some.map((limit_key) => ({
          limit_key,
          in_use: 0,
          refilled: 0,
          expires: knex.raw(`${this.#clock} + ?`, [FRESH_MS]),
        }));
        await knex('eg_limit_counters').insert(rows).onConflict('limit_key').ignore();
      }
    });
  }

  async #rows(knex: Knex, narrow: (rows: Knex.QueryBuilder) => Knex.QueryBuilder): Promise<readonly RunningSlot[]> {
    const rows = (await narrow(knex('eg_running')).select('*', knex.raw(`${this.#clock} as now`))) as SlotRow[];
    return rows.map(toSlot);
  }

  #update(column: 'slot_id' | 'query_id', ids: readonly string[], change: object): Promise<void> {
    const sorted = ids.map((id) => cutToWidth(id, WIDTH)).sort();
    return this.database.run(async (knex) => {
      for (const some of batches(sorted, BATCH)) await knex('eg_running').whereIn(column, some).update(change);
    });
  }

  get #clock(): string {
    return this.database.dialect.clockMs;
  }

  get #now(): Knex.Raw {
    return this.database.knex.raw(this.#clock);
  }
}

async function removeSlots(
  trx: Knex.Transaction,
  released: readonly Pick<RunningSlot, 'slotId' | 'parts'>[],
  counters: ReadonlyMap<string, LimitCounter>,
): Promise<void> {
  for (const some of batches(released, BATCH)) {
    const ids = some.map(({ slotId }) => slotId);
    const present = new Set<string>(await trx('eg_running').whereIn('slot_id', ids).pluck('slot_id'));
    if (present.size === 0) continue;
    await trx('eg_running')
      .whereIn('slot_id', [...present])
      .delete();
    for (const { slotId, parts } of some) {
      // Each once, also if it was released twice.
      if (!present.delete(slotId)) continue;
      for (const { key, amount = 1 } of parts) {
        const counter = counters.get(key);
        if (counter !== undefined) counter.inUse = Math.max(0, counter.inUse - amount);
      }
    }
  }
}

async function writeCounters(trx: Knex.Transaction, changed: readonly (readonly [string, LimitCounter])[]) {
  const rows = changed.map(([limit_key, { inUse, tokens, refilled, expires }]) => ({
    ...{ limit_key, in_use: inUse, tokens, refilled, expires },
  }));
  for (const some of batches(rows, BATCH)) {
    await trx('eg_limit_counters')
      .insert(some)
      .onConflict('limit_key')
      .merge(['in_use', 'tokens', 'refilled', 'expires']);
  }
}

/** Usage by rows of counters that state another one. @param among the only ones that are compared; null: all */
async function differences(
  knex: Knex,
  among: ReadonlyMap<string, LimitCounter> | null,
): Promise<ReadonlyMap<string, number>> {
  const counters =
    among ??
    new Map(((await knex('eg_limit_counters')) as CounterRow[]).map((row) => [row.limit_key, toCounter(row)] as const));
  const used = new Map<string, number>();
  for (const text of (await knex('eg_running').pluck('limit_keys')) as string[]) {
    for (const { key, amount = 1 } of partsOf(text)) used.set(key, (used.get(key) ?? 0) + amount);
  }
  const wrong = new Map<string, number>();
  for (const [key, { inUse }] of counters) if (inUse !== (used.get(key) ?? 0)) wrong.set(key, used.get(key) ?? 0);
  return wrong;
}

function isSame(one: LimitCounter, other: LimitCounter | undefined): boolean {
  return (
    one.inUse === other?.inUse &&
    one.tokens === other.tokens &&
    one.refilled === other.refilled &&
    one.expires === other.expires
  );
}

/** `group:etl limit:default/people:ann bytes:all=1200`: keys have no `=`. */
function partsText(parts: readonly CounterPart[]): string {
  return parts.map(({ key, amount = 1 }) => (amount === 1 ? key : `${key}=${amount}`)).join(' ');
}

function partsOf(text: string): readonly CounterPart[] {
  return text.split(' ').map((part) => {
    const [key = '', amount] = part.split('=');
    return amount === undefined ? { key } : { key, amount: Number(amount) };
  });
}

function toCounter({ in_use: inUse, tokens, refilled, expires }: CounterRow): LimitCounter {
  return { inUse, tokens, refilled, expires };
}

function toSlot(row: SlotRow): RunningSlot {
  const { slot_id: slotId, query_id: queryId, transaction_id: transactionId, cluster, limit_keys, seen, now } = row;
  return { slotId, queryId, transactionId, cluster, parts: partsOf(limit_keys), unseenMs: now - seen };
}
