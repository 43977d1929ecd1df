import type { Knex } from 'knex';
import { Turns } from '../model/turns.ts';
import type { Database } from './database.ts';
import { addCount, durationBucket, durationPercentiles } from './durationBucket.ts';
import { isUserError, type QueryState, RUNNING } from './queryOutcome.ts';

/** Types of errors in the order of their counts; other types and none are the last. */
export const errorTypes = ['USER_ERROR', 'INTERNAL_ERROR', 'INSUFFICIENT_RESOURCES', 'EXTERNAL', 'OTHER'] as const;

/** Digest of queries that are not counted by their digest, as an hour has too many. */
export const OTHER_DIGEST = 'other';
/** Rows of an hour, and of a day: the digests with most queries, and those with most processor time. */
const MAX_ROWS_BY = 1_000;
/** Digests, groups and clusters of an hour in memory; further ones count as `OTHER_DIGEST`. */
const MAX_KEYS = 50_000;
const ROWS = { postgresql: 5_000, mysql: 5_000, sqlite: 500 } as const;

/** Times in milliseconds since 1970, `to` exclusive; or numbers of hours. */
export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** Names of the histograms: buckets of `durationBucket` with counts. */
const histograms = ['elapsed', 'queued', 'cpu', 'bytes', 'memory'] as const;
type HistogramName = (typeof histograms)[number];

/** Columns of a query that figures are made of. */
export interface CountedRow {
  readonly query_id: string;
  readonly created: number;
  readonly digest: string | null;
  readonly routing_group: string | null;
  readonly cluster: string | null;
  readonly state: QueryState;
  readonly error_type: string | null;
  readonly elapsed_ms: number | null;
  readonly elapsed_bucket: number | null;
  readonly queued_bucket: number | null;
  readonly cpu_ms: number | null;
  readonly processed_bytes: number | null;
  readonly peak_memory_bytes: number | null;
}
const columns = [
  ...(['query_id', 'created', 'digest', 'routing_group', 'cluster', 'state', 'error_type', 'elapsed_ms'] as const),
  ...(['elapsed_bucket', 'queued_bucket', 'cpu_ms', 'processed_bytes', 'peak_memory_bytes'] as const),
];

/** Sums of queries. */
export interface DigestTotals {
  queries: number;
  failures: number;
  user_errors: number;
  elapsed_ms: number;
  cpu_ms: number;
  processed_bytes: number;
}
const totalNames = [...(['queries', 'failures', 'user_errors', 'elapsed_ms', 'cpu_ms', 'processed_bytes'] as const)];
export const noTotals = (): DigestTotals => ({
  ...{ queries: 0, failures: 0, user_errors: 0, elapsed_ms: 0, cpu_ms: 0, processed_bytes: 0 },
});

/**
 * Fields of the figures of queries of an hour with one digest, routing group and cluster, which are the first three, as JSON; then
 * totals, counts of errors by type, and histograms.
 */
export type DigestFields = readonly string[];
const [GROUP, CLUSTER, TOTALS, ERRORS, HISTOGRAMS] = [1, 2, 3, 4, 5] as const;
/** Rows of an hour of `eg_digest_hours`: each has the figures of a part of the digests. */
const PARTS = 32;
/** Hours of a statement, and of one that reads a part. */
const [HOURS, HOURS_OF_PART] = [12, 240];

/** A row of `eg_digest_hours`: lines of fields, sorted. */
export interface DigestHour {
  readonly hour: number;
  readonly part: number;
  readonly figures: string;
}

/** Percentiles of what a histogram counts; null if no query reported it. */
export type DigestPercentiles = Readonly<Record<'p50' | 'p95', number | null>>;

/** Figures that can be merged: totals, counts of errors by type, and histograms. */
export class DigestFigures {
  readonly totals = noTotals();
  readonly #errors = new Map<number, number>();
  readonly #histograms = histograms.map(() => new Map<number, number>());

  addQuery(row: CountedRow): void {
    const { state, error_type: type } = row;
    const { totals } = this;
    const isUsers = isUserError(state, type);
    const isFailure = state === 'FAILED' || state === 'LOST';
    totals.queries += 1;
    if (isUsers) totals.user_errors += 1;
    else if (isFailure) totals.failures += 1;
    if (isFailure) {
      const place = errorTypes.indexOf(type as (typeof errorTypes)[number]);
      addCount(this.#errors, place < 0 ? errorTypes.length - 1 : place, 1);
    }
    totals.elapsed_ms += row.elapsed_ms ?? 0;
    totals.cpu_ms += row.cpu_ms ?? 0;
    totals.processed_bytes += row.processed_bytes ?? 0;
    const { elapsed_bucket: elapsed, queued_bucket: queued, cpu_ms: cpu, processed_bytes: bytes } = row;
    const buckets = [
      elapsed,
      queued,
      durationBucket(cpu),
      durationBucket(bytes),
      durationBucket(row.peak_memory_bytes),
    ];
    for (const [place, bucket] of buckets.entries()) if (bucket !== null) addCount(this.#counts(place), bucket, 1);
  }

  addSum(fields: DigestFields): void {
    addTotals(this.totals, fields);
    readPairs(fields[ERRORS] ?? '', (type, count) => addCount(this.#errors, type, count));
    for (const [place, name] of histograms.entries()) {
      readHistogram(fields, name, (bucket, count) => addCount(this.#counts(place), bucket, count));
    }
  }

  merge(other: DigestFigures): void {
    for (const name of totalNames) this.totals[name] += other.totals[name];
    for (const [type, count] of other.#errors) addCount(this.#errors, type, count);
    for (const [place, counts] of other.#histograms.entries()) {
      for (const [bucket, count] of counts) addCount(this.#counts(place), bucket, count);
    }
  }

  /** Fields in addition to the first three. */
  get fields(): DigestFields {
    const totals = totalNames.map((name) => this.totals[name]);
    return [totals.join(','), ...[this.#errors, ...this.#histograms].map(pairsText)];
  }

  errors(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.#errors].map(([type, count]) => [errorTypes[type] ?? 'OTHER', count]));
  }

  percentiles(name: HistogramName): DigestPercentiles {
    const within = durationPercentiles(this.#counts(histograms.indexOf(name)));
    return { p50: within(0.5), p95: within(0.95) };
  }

  #counts(place: number): Map<number, number> {
    return this.#histograms[place] as Map<number, number>;
  }
}

/** Reads pairs of whole numbers, `key:count,key:count`. */
export function readPairs(text: string, add: (key: number, count: number) => void): void {
  let key = 0;
  let number = 0;
  for (let place = 0; place < text.length; place += 1) {
    const code = text.charCodeAt(place);
    if (code === 58) {
      key = number;
      number = 0;
    } else if (code === 44) {
      add(key, number);
      number = 0;
    } else number = number * 10 + code - 48;
  }
  if (text !== '') add(key, number);
}

export function readHistogram(fields: DigestFields, name: HistogramName, add: Parameters<typeof readPairs>[1]): void {
  readPairs(fields[HISTOGRAMS + histograms.indexOf(name)] ?? '', add);
}

/** Pairs with the counts of both texts. */
export function mergedPairs(one: string, other: string): string {
  const counts = new Map<number, number>();
  for (const text of [one, other]) readPairs(text, (key, count) => addCount(counts, key, count));
  return pairsText(counts);
}

const pairsText = (counts: ReadonlyMap<number, number>): string =>
  [...counts].map(([key, count]) => `${key}:${count}`).join(',');

/**
 * Reads queries that ended, oldest first, in pages.
 * @param narrow conditions on `eg_query_outcomes`
 */
export async function* endedQueries(
  database: Database,
  range: TimeRange,
  narrow: (queries: Knex.QueryBuilder) => Knex.QueryBuilder = (queries) => queries,
): AsyncGenerator<readonly CountedRow[]> {
  const limit = ROWS[database.dialect.name];
  for (let after: CountedRow | undefined; ; ) {
    const last = after;
    const rows: readonly CountedRow[] = await database.run(async (knex) => {
      const query = narrow(knex('eg_query_outcomes')).whereNot('state', RUNNING).where('created', '<', range.to);
      query
        .where('created', '>=', last?.created ?? range.from)
        .orderBy(['created', 'query_id'])
        .limit(limit);
      if (last !== undefined) {
        const { created, query_id: id } = last;
        query.where((later) => later.where('created', '>', created).orWhere('query_id', '>', id));
      }
      return (await query.select(columns)) as CountedRow[];
    });
    if (rows.length > 0) yield rows;
    if (rows.length < limit) return;
    after = rows.at(-1);
  }
}

/** Rows of `eg_digest_hours` of an hour, with at most a few thousand lines: further digests count as `OTHER_DIGEST`. */
export async function digestSumsOf(database: Database, hour: number, hourMs: number): Promise<readonly DigestHour[]> {
  const byKey = new Map<string, DigestFigures>();
  for await (const rows of endedQueries(database, { from: hour * hourMs, to: (hour + 1) * hourMs })) {
    for (const row of rows) {
      const key = [row.digest, row.routing_group, row.cluster].map((value) => JSON.stringify(value)).join('\t');
      const isFull = byKey.size >= MAX_KEYS && !byKey.has(key);
      figuresOf(byKey, isFull ? otherKey(key) : key).addQuery(row);
    }
  }
  return hoursOf(byKey, hour);
}

/** Rows of `eg_digest_hours` of several hours together, under another key. */
export async function mergedDigestSums(database: Database, key: number, hours: TimeRange) {
  const byKey = new Map<string, DigestFigures>();
  for await (const { sums } of digestSums(database, [hours])) {
    for (const fields of sums) figuresOf(byKey, fields.slice(0, TOTALS).join('\t')).addSum(fields);
  }
  return hoursOf(byKey, key);
}

function hoursOf(byKey: Map<string, DigestFigures>, hour: number): readonly DigestHour[] {
  if (byKey.size > MAX_ROWS_BY) {
    const all = [...byKey];
    const most = (name: 'queries' | 'cpu_ms') =>
      all.toSorted(([, a], [, b]) => b.totals[name] - a.totals[name]).slice(0, MAX_ROWS_BY);
    const counted = new Set([...most('queries'), ...most('cpu_ms')].map(([key]) => key));
    for (const [key, figures] of all) {
      if (counted.has(key)) continue;
      byKey.delete(key);
      figuresOf(byKey, otherKey(key)).merge(figures);
    }
  }
  const lines = [...byKey].map(([key, figures]) => [key, ...figures.fields].join('\t')).sort();
  const parts = Map.groupBy(lines, (line) => partOf(digestIn(line.split('\t', 1))));
  return [...parts].map(([part, of]) => ({ hour, part, figures: of.join('\n') }));
}

/** A part for each digest: those with equal last characters have the same. */
const partOf = (digest: string | null): number => Number.parseInt(digest?.slice(-2) ?? '', 16) % PARTS || 0;

export const digestIn = ([digest = '']: DigestFields): string | null => JSON.parse(digest) as string | null;

export function addTotals(totals: DigestTotals, fields: DigestFields): void {
  const numbers = (fields[TOTALS] ?? '').split(',');
  for (const [place, name] of totalNames.entries()) totals[name] += Number(numbers[place]);
}

/**
 * Reads stored sums, a part of an hour each time, the newest first.
 * @param hours keys of hours and days
 * @param only values of sums; left out: any
 */
export async function* digestSums(
  database: Database,
  hours: readonly TimeRange[],
  only: Partial<Record<'digest' | 'routingGroup' | 'cluster', string | undefined>> = {},
): AsyncGenerator<{ readonly hour: number; readonly sums: readonly DigestFields[] }> {
  const { digest, routingGroup, cluster } = only;
  const start = digest === undefined ? '' : `${JSON.stringify(digest)}\t`;
  const isChosen = (field: string | undefined, value: string | undefined) =>
    value === undefined || field === JSON.stringify(value);
  const step = digest === undefined ? HOURS : HOURS_OF_PART;
  const turns = new Turns();
  for (const { from, to } of hours.toReversed()) {
    for (let last = to; last > from; last -= step) {
      const rows: Omit<DigestHour, 'part'>[] = await database.run((knex) => {
        const query = knex('eg_digest_hours').whereBetween('hour', [Math.max(from, last - step), last - 1]);
        if (digest !== undefined) query.where('part', partOf(digest));
        return query.orderBy([{ column: 'hour', order: 'desc' }, 'part']).select('hour', 'figures');
      });
      for (const { hour, figures } of rows) {
        const lines = figures.split('\n').filter((line) => line.startsWith(start));
        const all = lines.map((line) => line.split('\t'));
        const sums = all.filter((of) => isChosen(of[GROUP], routingGroup) && isChosen(of[CLUSTER], cluster));
        yield { hour, sums };
        if (turns.isOver) await turns.next();
      }
    }
  }
}

/** Figures of a key; new ones if it has none. */
export function figuresOf<Key>(all: Map<Key, DigestFigures>, key: Key): DigestFigures {
  let figures = all.get(key);
  if (figures === undefined) {
    figures = new DigestFigures();
    all.set(key, figures);
  }
  return figures;
}

const otherKey = (key: string): string => `"${OTHER_DIGEST}"${key.slice(key.indexOf('\t'))}`;
