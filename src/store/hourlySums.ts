import type { Knex } from 'knex';
import { Turns } from '../model/turns.ts';
import { batches } from './columns.ts';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import {
  type DigestHour,
  digestSumsOf,
  mergedDigestSums,
  mergedPairs,
  readPairs,
  type TimeRange,
} from './digestFigures.ts';
import { failureConditions, queryStates, RUNNING } from './queryOutcome.ts';
import {
  countedQueries,
  dimensionColumns,
  type StatisticsDimension,
  statisticsDimensions,
} from './statisticsDimension.ts';
import type { Fence } from './store.ts';

export const HOUR_MS = 3_600_000;
/**
 * Which sums are kept, and how. Another number whenever a dimension or what is counted changes: hours are then summed
 * again, and no one uses the sums that programs of another number made.
 */
const FORMAT = 5;
/** Values of a dimension in an hour. An hour in which one has more is counted from its queries each time. */
const MAX_VALUES = 10_000;
/** An hour is summed so long after its end: by then most of its queries are over. */
const DELAY_MS = 5 * 60_000;
/** Changes of an hour are noted from then on: before, no replica sums it, and each of its batches would lock its row. */
const NOTED_AFTER_MS = 2 * 60_000;
/** Hours that are looked after, of a history that goes back further the latest. */
const MAX_HOURS = 10_000;
const HOURS_A_ROUND = 24;
const DAY_HOURS = 24;
/** `hour` of the sums of a day is this and the number of the day. */
const DAYS = 1_000_000_000;
/** Hours that fail before a round gives up. */
const MAX_FAILURES = 3;
const ROWS_A_STATEMENT = 200;
const CHARACTERS_A_STATEMENT = 250_000;
/** Stretches of summed hours that a statement names; where they are more, most were changed lately. */
const MAX_STRETCHES = 50;
/** Endings are keyed by the state's place times this, and one more than the bucket of the duration. */
const PER_STATE = 1_000;

/** Dimension of the sums of all queries. */
export const ALL_QUERIES = 'all';

/** Sums of the queries of an hour that have one value in common. */
export interface SumRow {
  readonly value: string | null;
  readonly queries: number;
  readonly endings: string;
  readonly queued: string;
  readonly cpu_ms: number;
  readonly processed_bytes: number;
  readonly result_bytes: number;
}

export interface SumsRound {
  readonly summed: number;
  /** Hours that are left for the next round. */
  readonly left: number;
  readonly failure: Error | null;
}

/** `eg_query_hours` and `eg_query_sums`: figures of queries by hour (docs/database.md#hourly-sums). */
export type HourlySums = ReturnType<typeof hourlySums>;

/** Place of FAILED queries with an error of their user, next to those of `queryStates`. */
export const USER_ERROR_PLACE = 7;
/** States by place. */
export const statesByPlace = [
  ...queryStates.slice(0, USER_ERROR_PLACE),
  'FAILED',
  ...queryStates.slice(USER_ERROR_PLACE),
] as const;

const states = queryStates.map((state) => `when '${state}' then ${statesByPlace.indexOf(state) * PER_STATE}`).join(' ');
const userErrorKey = `when ${failureConditions.userError} then ${USER_ERROR_PLACE * PER_STATE}`;
const endingKey = `case ${userErrorKey} else case state ${states} end end + coalesce(elapsed_bucket + 1, 0)`;

/**
 * The statement that notes that queries of hours that are over were written: sums of these hours hold no more. In the transaction that
 * writes them, so that sums which were made without them are not taken for complete. In the order of hours, so that two batches never
 * wait for each other.
 * @param queries in SQL: with `created` and `state`
 */
function noteSql({ dialect: { name, clockMs } }: Database, queries: string): string {
  const isMysql = name === 'mysql';
  const hourOf = (time: string) => `${time} ${isMysql ? 'div' : '/'} ${HOUR_MS}`;
  const renewed = 'changes = eg_query_hours.changes + 1, sums = 0';
  // SQLite reads `on` as a join's without a condition before it.
  return `insert into eg_query_hours (hour, changes, sums) select t.hour, ${clockMs}, 0 from (
    select distinct ${hourOf('created')} as hour from ${queries}
    where state <> '${RUNNING}' and ${hourOf('created')} < ${hourOf(`(${clockMs} - ${NOTED_AFTER_MS})`)}) as t
    where true order by t.hour
    ${isMysql ? 'on duplicate key update' : 'on conflict (hour) do update set'} ${renewed}`;
}

/** Notes that these queries were written, as of `noteSql`. */
export async function noteChanges(trx: Knex, database: Database, queryIds: readonly string[]): Promise<void> {
  if (queryIds.length === 0) return;
  const places = queryIds.map(() => '?').join(', ');
  const queries = `(select created, state from eg_query_outcomes where query_id in (${places})) as q`;
  await trx.raw(noteSql(database, queries), [...queryIds]);
}

/** The same in the statement of PostgreSQL that writes them. */
export function noting(database: Database, insert: string): string {
  return `with q as (${insert} returning created, state) ${noteSql(database, 'q')}`;
}

/** Notes that queries up to a time are being deleted. @param before milliseconds since 1970 */
export async function noteDeletion(database: Database, before: number): Promise<void> {
  await database.run((knex) =>
    knex('eg_query_hours')
      .where('hour', '<=', Math.floor(before / HOUR_MS))
      .update({ changes: knex.raw('changes + 1'), sums: 0 }),
  );
}

/** Deletes sums of hours that ended before a time, whose queries are deleted. */
export async function deleteSumsBefore(database: Database, before: number, fence: Fence | null): Promise<void> {
  const hour = Math.floor(before / HOUR_MS);
  await deleteInBatches(database, 'eg_query_sums', 'hour', hour, fence);
  await deleteInBatches(database, 'eg_digest_hours', 'hour', hour, fence);
  await deleteInBatches(database, 'eg_query_hours', 'hour', hour, fence);
  const days = [DAYS, DAYS + Math.floor(hour / DAY_HOURS) - 1] as const;
  await database.transaction(async (trx) => {
    for (const table of ['eg_query_sums', 'eg_digest_hours', 'eg_query_hours'])
      await trx(table).whereBetween('hour', days).delete();
  });
}

/** Returns the summed stretches of whole hours of a range, in order, and the keys of their sums. */
async function summedStretches(knex: Knex, { from, to }: TimeRange): Promise<Pick<SummedSources, 'summed' | 'keys'>> {
  const [first, end] = [Math.ceil(from / HOUR_MS), Math.floor(to / HOUR_MS)];
  const rows: HourRow[] = await knex('eg_query_hours')
    .where('sums', FORMAT)
    .where((either) => {
      either.where((hours) => hours.where('hour', '>=', first).where('hour', '<', end));
      either.orWhereBetween('hour', [DAYS + Math.ceil(first / DAY_HOURS), DAYS + Math.floor(end / DAY_HOURS) - 1]);
    })
    .orderBy('hour');
  const { valid } = daysOf(rows);
  const hours = rows.map(({ hour }) => hour).filter((hour) => hour < DAYS);
  const summed = stretchesOf(hours).map((each) => ({ from: each.from * HOUR_MS, to: each.to * HOUR_MS }));
  const single = hours.filter((hour) => !valid.has(DAYS + Math.floor(hour / DAY_HOURS)));
  const keys = stretchesOf([...single, ...[...valid].sort((a, b) => a - b)]);
  return summed.length > MAX_STRETCHES || keys.length > MAX_STRETCHES ? { summed: [], keys: [] } : { summed, keys };
}

function stretchesOf(sorted: readonly number[]): readonly TimeRange[] {
  const stretches: { from: number; to: number }[] = [];
  for (const each of sorted) {
    const last = stretches.at(-1);
    if (last?.to === each) last.to += 1;
    else stretches.push({ from: each, to: each + 1 });
  }
  return stretches;
}

/** Days with sums of all hours, by key with their changes, and keys of those with valid sums. */
function daysOf(rows: readonly HourRow[]) {
  const byKey = new Map(rows.map((row) => [row.hour, row]));
  const hours = rows.filter(({ hour, sums }) => hour < DAYS && sums === FORMAT);
  const whole = new Map<number, number>();
  for (const [day, some] of Map.groupBy(hours, ({ hour }) => Math.floor(hour / DAY_HOURS))) {
    if (some.length === DAY_HOURS)
      whole.set(
        DAYS + day,
        some.reduce((sum, { changes }) => sum + changes, 0),
      );
  }
  const isValid = ([key, changes]: [number, number]) => {
    const day = byKey.get(key);
    return day?.changes === changes && day.sums === FORMAT;
  };
  return { whole, valid: new Set([...whole].filter(isValid).map(([key]) => key)) };
}

/** Ranges of a time range that are read from sums, and others, of which the queries are counted. */
export interface SummedSources {
  readonly summed: readonly TimeRange[];
  /** Values of `hour` of the sums of these: of whole days where these are summed. */
  readonly keys: readonly TimeRange[];
  readonly single: readonly TimeRange[];
}

/** @param hasSums false if there are no sums of what is counted */
export async function sourcesOf(knex: Knex, range: TimeRange, hasSums: boolean): Promise<SummedSources> {
  const { from, to } = range;
  const isSummed = hasSums && to - from >= HOUR_MS;
  const { summed, keys } = isSummed ? await summedStretches(knex, range) : { summed: [], keys: [] };
  const single: TimeRange[] = [];
  let start = from;
  for (const stretch of summed) {
    if (start < stretch.from) single.push({ from: start, to: stretch.from });
    start = stretch.to;
  }
  if (start < to) single.push({ from: start, to });
  return { summed, keys, single };
}

/** Narrows sums to their keys. */
export function whereKeyWithin(sums: Knex.QueryBuilder, keys: readonly TimeRange[]): Knex.QueryBuilder {
  return sums.where((any) => {
    for (const { from, to } of keys) any.orWhereBetween('hour', [from, to - 1]);
  });
}

/** Reads `endings`. @param add called with a place in `statesByPlace`, the bucket of the duration or null, and how many queries */
export function readEndings(text: string, add: (state: number, bucket: number | null, queries: number) => void): void {
  readPairs(text, (key, queries) => {
    const bucket = key % PER_STATE;
    add(Math.floor(key / PER_STATE), bucket === 0 ? null : bucket - 1, queries);
  });
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
type HourRow = Readonly<Record<'hour' | 'changes' | 'sums', number>>;

/** `eg_query_hours` and `eg_query_sums`. */
export function hourlySums(database: Database) {
  return {
    /**
     * Sums hours that are over and are not summed, or were changed since, and days of which the hours were summed before. Any number of
     * replicas may do so concurrently.
     * @param now milliseconds since 1970
     */
    async sum(now: number): Promise<SumsRound> {
      const hours = await hoursUntil(database, now);
      const { whole, valid } = daysOf(hours);
      const days = [...whole].filter(([key]) => !valid.has(key)).map(([hour, changes]) => ({ hour, changes }));
      const outdated = [...hours.filter(({ hour, sums }) => hour < DAYS && Math.abs(sums) !== FORMAT), ...days].sort(
        (a, b) => (b.hour % DAYS) - (a.hour % DAYS),
      );
      let summed = 0;
      let failures = 0;
      let failure: Error | null = null;
      for (const row of outdated.slice(0, HOURS_A_ROUND)) {
        try {
          await (row.hour < DAYS ? sumHour : sumDay)(database, row.hour, row.changes);
          summed += 1;
        } catch (error) {
          failure ??= error instanceof Error ? error : new Error(String(error));
          failures += 1;
          if (failures === MAX_FAILURES) break;
        }
      }
      return { summed, left: outdated.length - summed, failure };
    },
  };
}

/** Hours of the history that are over; of hours that no one noted yet a row is made. */
async function hoursUntil(database: Database, now: number): Promise<readonly HourRow[]> {
  const end = Math.floor((now - DELAY_MS) / HOUR_MS);
  const oldest: { readonly created?: number | null } | undefined = await database.run((knex) =>
    knex('eg_query_outcomes').min({ created: 'created' }).first(),
  );
  if (oldest?.created === undefined || oldest.created === null) return [];
  const first = Math.max(Math.floor(oldest.created / HOUR_MS), end - MAX_HOURS);
  const read = () =>
    database.run(
      async (knex): Promise<HourRow[]> =>
        await knex('eg_query_hours')
          .whereBetween('hour', [first, end - 1])
          .orWhereBetween('hour', [DAYS + Math.floor(first / DAY_HOURS), DAYS + Math.floor(end / DAY_HOURS)])
          .select('*'),
    );
  const rows = await read();
  const present = new Set(rows.map(({ hour }) => hour));
  const missing: number[] = [];
  for (let hour = first; hour < end; hour += 1) if (!present.has(hour)) missing.push(hour);
  if (missing.length === 0) return rows;
  for (const added of batches(missing, ROWS_A_STATEMENT)) {
    await database.run((knex) => {
      // From the clock, so that a row that was deleted meanwhile never comes back with the number that it had.
      const changes = knex.raw(database.dialect.clockMs);
      return knex('eg_query_hours')
        .insert(added.map((hour) => ({ hour, changes, sums: 0 })))
        .onConflict('hour')
        .ignore();
    });
  }
  return await read();
}

/** Sums an hour from its queries, unless one of them changes meanwhile. @param changes what the hour's row had before */
async function sumHour(database: Database, hour: number, changes: number): Promise<void> {
  const rows = await sumsOf(database, hour);
  const digests = rows === null ? [] : await digestSumsOf(database, hour, HOUR_MS);
  await database.transaction(async (trx) => {
    // Locks the row: what is written from here on waits, and then states that the sums hold no more.
    const mine = await trx('eg_query_hours')
      .where({ hour, changes })
      .whereNotIn('sums', [FORMAT, -FORMAT])
      .update({ sums: rows === null ? -FORMAT : FORMAT });
    if (mine === 0) return;
    await putSums(trx, hour, rows ?? [], digests);
  });
}

async function putSums(
  trx: Knex,
  hour: number,
  rows: readonly object[],
  digests: readonly DigestHour[],
): Promise<void> {
  const turns = new Turns();
  const sizeOf = ({ figures }: DigestHour) => figures.length;
  for (const [table, some] of [
    ['eg_query_sums', batches(rows, ROWS_A_STATEMENT)] as const,
    ['eg_digest_hours', batches(digests, CHARACTERS_A_STATEMENT, sizeOf)] as const,
  ]) {
    await trx(table).where('hour', hour).delete();
    for (const batch of some) {
      await trx(table).insert(batch);
      if (turns.isOver) await turns.next();
    }
  }
}

/** Sums a day from its hours. @param changes those of its hours, by which readers know that the sums hold */
async function sumDay(database: Database, key: number, changes: number): Promise<void> {
  const first = (key - DAYS) * DAY_HOURS;
  const digests = await mergedDigestSums(database, key, { from: first, to: first + DAY_HOURS });
  const rows = new Map<string, StoredSum>();
  for (let hour = first; hour < first + DAY_HOURS; hour += 1) {
    const more: StoredSum[] = await database.run((knex) => knex('eg_query_sums').where({ hour }));
    for (const row of more) addSum(rows, { ...row, hour: key });
  }
  await database.transaction(async (trx) => {
    await trx('eg_query_hours').insert({ hour: key, changes, sums: FORMAT }).onConflict('hour').merge();
    await putSums(trx, key, [...rows.values()], digests);
  });
}

interface StoredSum extends Mutable<SumRow> {
  readonly dimension: StatisticsDimension | typeof ALL_QUERIES;
  readonly hour: number;
  readonly place: number;
}

/** Adds sums to those with the same dimension and value. */
function addSum(sums: Map<string, StoredSum>, row: StoredSum): void {
  const name = JSON.stringify([row.dimension, row.value]);
  const sum = sums.get(name);
  if (sum === undefined) {
    sums.set(name, { ...row, place: sums.size });
    return;
  }
  for (const each of ['queries', 'cpu_ms', 'processed_bytes', 'result_bytes'] as const) sum[each] += row[each];
  for (const each of ['endings', 'queued'] as const) sum[each] = mergedPairs(sum[each], row[each]);
}

/** Sums of an hour by all dimensions; null if one has too many values. */
async function sumsOf(database: Database, hour: number): Promise<readonly StoredSum[] | null> {
  const all: StoredSum[] = [];
  const ofHour: Narrowing = (queries) =>
    queries.where('created', '>=', hour * HOUR_MS).where('created', '<', (hour + 1) * HOUR_MS);
  for (const dimension of statisticsDimensions) {
    const { endings, queued } = await database.addUp(async (knex) => ({
      endings: await endingsOf(database, knex, dimension, MAX_VALUES + 1, ofHour),
      queued: await queuedOf(database, knex, dimension, MAX_VALUES + 1, ofHour),
    }));
    // Of no query: there is nothing by the others either, which are not asked for then.
    if (endings.length === 0) break;
    if (endings.length > MAX_VALUES) return null;
    const queuedByValue = new Map(queued.map((row) => [row.value, row.queued]));
    for (const [place, row] of endings.entries()) {
      const { cpu_ms, processed_bytes, result_bytes } = row;
      all.push({
        ...{ dimension, hour, place, ...row, queued: queuedByValue.get(row.value) ?? '' },
        ...{ cpu_ms: cpu_ms ?? 0, processed_bytes: processed_bytes ?? 0, result_bytes: result_bytes ?? 0 },
      });
    }
  }
  const whole = new Map<string, StoredSum>();
  for (const row of all)
    if (row.dimension === 'routingGroup') addSum(whole, { ...row, dimension: ALL_QUERIES, value: null });
  return [...all, ...whole.values()];
}

export type EndingsRow = Omit<SumRow, 'queued'>;
export type QueuedRow = Pick<SumRow, 'value' | 'queued'>;

export type Narrowing = (queries: Knex.QueryBuilder) => Knex.QueryBuilder;

/** Groups of queries: by a dimension, or by an expression in SQL. */
type Grouping = StatisticsDimension | Knex.Raw;

function grouped(knex: Knex, by: Grouping, bucket: string, narrow: Narrowing): Knex.QueryBuilder {
  const column = typeof by === 'string' ? dimensionColumns[by] : by;
  return narrow(typeof by === 'string' ? countedQueries(knex, by) : knex('eg_query_outcomes'))
    .whereNot('state', RUNNING)
    .groupBy(column as string)
    .groupBy(bucket)
    .select({ value: column })
    .count({ queries: '*' });
}

const pairs = (database: Database, name: string) =>
  `${database.dialect.joined("concat(place, ':', queries)")} as ${name}`;

/** Endings of queries by value, as `eg_query_sums` has them: a row of each value, far fewer than of each value and bucket. */
export async function endingsOf(
  ...[database, knex, by, limit, narrow]: [Database, Knex, Grouping, number, Narrowing]
): Promise<readonly EndingsRow[]> {
  const inner = grouped(knex, by, 'elapsed_bucket', narrow)
    .groupBy('place')
    .select(knex.raw(`${endingKey} as place`))
    .sum({ cpu_ms: 'cpu_ms', processed_bytes: 'processed_bytes', result_bytes: 'result_bytes' });
  return (await knex
    .from(inner.as('g'))
    .groupBy('value')
    .select('value', knex.raw(pairs(database, 'endings')))
    .sum({ queries: 'queries', cpu_ms: 'cpu_ms', processed_bytes: 'processed_bytes', result_bytes: 'result_bytes' })
    .limit(limit)) as unknown as readonly EndingsRow[];
}

/** Waits of queries by value, alike. Both durations in one statement would give a row for each two of them, as many as queries. */
export async function queuedOf(
  ...[database, knex, by, limit, narrow]: [Database, Knex, Grouping, number, Narrowing]
): Promise<readonly QueuedRow[]> {
  const inner = grouped(knex, by, 'queued_bucket', narrow)
    .whereNotNull('queued_bucket')
    .select({ place: 'queued_bucket' });
  return (await knex
    .from(inner.as('g'))
    .groupBy('value')
    .select('value', knex.raw(pairs(database, 'queued')))
    .limit(limit)) as unknown as readonly QueuedRow[];
}
