import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { durationPercentiles } from './durationBucket.ts';
import { type CountedIntervals, runStatements } from './queryCounts.ts';
import { failureConditions, RUNNING } from './queryOutcome.ts';

/** Median and 95th percentile of a duration, milliseconds; null if no query said it. */
export interface RatePercentiles {
  readonly p50: number | null;
  readonly p95: number | null;
}

export interface IntervalRates {
  /** Start of the interval, milliseconds since 1970; a whole multiple of its length. */
  readonly start: number;
  readonly queries: number;
  /** Of them those that ended, or that the gateway rejected or denied. */
  readonly ended: number;
  /** FAILED or LOST, without users' errors. */
  readonly failures: number;
  /** FAILED with an error of the user (`USER_ERROR`). */
  readonly userErrors: number;
  readonly refused: number;
  readonly elapsedMillis: RatePercentiles;
  /** The same, in the engine's and the gateway's queue together. */
  readonly queuedMillis: RatePercentiles;
}

export interface ErrorCount {
  readonly state: string;
  readonly errorName: string | null;
  readonly errorType: string | null;
  readonly queries: number;
}

/**
 * All queries of a cluster or of a routing group that ended, in two times that follow each other, and faults among them. Faults of a
 * routing group are those of its queries that no cluster took.
 */
export interface FaultCounts {
  /** Null: the counts are of a routing group. */
  readonly cluster: string | null;
  /** Null: the counts are of a cluster, or of all queries. Faults of all queries are those that had no routing group yet. */
  readonly group: string | null;
  readonly groups: readonly string[];
  readonly before: { readonly ended: number; readonly faults: number };
  readonly recent: { readonly ended: number; readonly faults: number };
}

type FaultyObject = Pick<FaultCounts, 'cluster' | 'group'>;
type ErrorRange = Readonly<Record<'from' | 'to' | 'limit', number>>;

/** Queries of a cluster and group in one minute. */
export interface FaultMinute {
  /** Null: no cluster took the queries. */
  readonly cluster: string | null;
  readonly group: string | null;
  /** Milliseconds since 1970. */
  readonly start: number;
  readonly ended: number;
  readonly faults: number;
  /** Error of the queries; null: they have none. */
  readonly errorName: string | null;
}

/** Times in milliseconds since 1970. */
export interface FaultTimes {
  readonly from: number;
  readonly recentFrom: number;
}

/** Rates, durations and faults by time, counted in SQL over `eg_query_outcomes`. */
export type QueryRates = ReturnType<typeof queryRates>;

/** A statement may take seconds at most: each counts a part of a long range. */
const PART_MS = 12 * 3_600_000;
/** Pairs of cluster and group that one answer has at most. */
const MAX_PAIRS = 2_000;
/** Minutes and errors of the pairs that are looked at closely. */
const MAX_MINUTES = 5_000;
const MINUTE_MS = 60_000;

const isFault = `(${failureConditions.failed} or ${failureConditions.refused})`;
const sumOf = (condition: string) => `sum(case when ${condition} then 1 else 0 end)`;
const hasRun = `state not in ('${RUNNING}', 'REFUSED', 'DENIED')`;

/** As drivers give it: sums and counts may come as text. */
type Figure = number | string | null;
interface ElapsedRow
  extends Record<'slot' | 'queries' | 'ended' | 'failures' | 'user_errors' | 'refused' | 'timed', Figure> {
  readonly bucket: Figure;
}
interface QueuedRow extends Record<'slot' | 'timed' | 'bucket', Figure> {}
interface FaultRow extends Record<'before_ended' | 'before_faults' | 'recent_ended' | 'recent_faults', Figure> {
  readonly cluster: string | null;
  readonly routing_group: string | null;
}
interface MinuteRow extends Record<'slot' | 'ended' | 'faults', Figure> {
  readonly cluster: string | null;
  readonly routing_group: string | null;
  readonly error_name: string | null;
}

/** Figures by time over `eg_query_outcomes`. */
export function queryRates(database: Database) {
  // Whole-number division: MySQL's `/` gives a fraction.
  const slot = database.dialect.name === 'mysql' ? 'created div ?' : 'created / cast(? as bigint)';
  const within = (knex: Knex, from: number, to: number) =>
    knex('eg_query_outcomes').where('created', '>=', from).where('created', '<', to);

  const elapsedRows = (part: CountedIntervals): Promise<ElapsedRow[]> =>
    database.run(
      async (knex) =>
        (await within(knex, part.from, part.to)
          .select(
            knex.raw(`${slot} as slot`, [part.length]),
            knex.raw('elapsed_bucket as bucket'),
            knex.raw('count(*) as queries'),
            knex.raw(`${sumOf(`state <> '${RUNNING}'`)} as ended`),
            knex.raw(`${sumOf(failureConditions.failed)} as failures`),
            knex.raw(`${sumOf(failureConditions.userError)} as user_errors`),
            knex.raw(`${sumOf(failureConditions.refused)} as refused`),
            knex.raw(`${sumOf(hasRun)} as timed`),
          )
          .groupBy('slot', 'bucket')) as unknown as ElapsedRow[],
    );
  const queuedRows = (part: CountedIntervals): Promise<QueuedRow[]> =>
    database.run(
      async (knex) =>
        (await within(knex, part.from, part.to)
          .whereRaw(hasRun)
          .whereNotNull('queued_bucket')
          .select(
            knex.raw(`${slot} as slot`, [part.length]),
            knex.raw('queued_bucket as bucket'),
            knex.raw('count(*) as timed'),
          )
          .groupBy('slot', 'bucket')) as unknown as QueuedRow[],
    );

  return {
    /** In order of time; intervals without queries are left out. */
    perInterval: async (intervals: CountedIntervals): Promise<readonly IntervalRates[]> => {
      const lines = new Map<number, Line>();
      const lineOf = (row: { readonly slot: Figure }): Line => {
        const start = Number(row.slot) * intervals.length;
        const line = lines.get(start) ?? new Line();
        lines.set(start, line);
        return line;
      };
      const work = partsOf(intervals).flatMap((part) => [
        async () => {
          for (const row of await elapsedRows(part)) lineOf(row).addElapsed(row);
        },
        async () => {
          for (const row of await queuedRows(part)) lineOf(row).addQueued(row);
        },
      ]);
      await runStatements(work);
      return [...lines].sort(([a], [b]) => a - b).map(([start, line]) => line.rates(start));
    },

    /** Errors of queries that failed, were lost, rejected or denied, most frequent first. */
    errors: ({ from, to, limit }: ErrorRange): Promise<readonly ErrorCount[]> =>
      database.run(async (knex) => {
        const rows = (await within(knex, from, to)
          .whereIn('state', ['FAILED', 'LOST', 'REFUSED', 'DENIED'])
          .groupBy('state', 'error_name', 'error_type')
          .select('state', 'error_name', 'error_type', knex.raw('count(*) as queries'))
          .orderByRaw('count(*) desc')
          .orderBy(['error_name', 'state'])
          .limit(limit)) as unknown as {
          readonly state: string;
          readonly error_name: string | null;
          readonly error_type: string | null;
          readonly queries: Figure;
        }[];
        return rows.map((row) => ({
          state: row.state,
          errorName: row.error_name,
          errorType: row.error_type,
          queries: Number(row.queries),
        }));
      }),

    /**
     * Faults of clusters and of routing groups since a time: queries that failed with an error that is not the user's, that were lost, or
     * that the gateway rejected.
     */
    faults: ({ from, recentFrom }: FaultTimes): Promise<readonly FaultCounts[]> =>
      database.run(async (knex) => {
        const sum = (condition: string, name: string, time: number) =>
          knex.raw(`${sumOf(condition)} as ${name}`, [time]);
        const rows = (await knex('eg_query_outcomes')
          .where('created', '>=', from)
          .whereNot('state', RUNNING)
          .groupBy('cluster', 'routing_group')
          .select(
            'cluster',
            'routing_group',
            sum('created < ?', 'before_ended', recentFrom),
            sum(`created < ? and ${isFault}`, 'before_faults', recentFrom),
            sum('created >= ?', 'recent_ended', recentFrom),
            sum(`created >= ? and ${isFault}`, 'recent_faults', recentFrom),
          )
          .orderByRaw(`${sumOf(`created >= ? and ${isFault}`)} desc`, [recentFrom])
          .limit(MAX_PAIRS)) as unknown as FaultRow[];
        return faultCounts(rows);
      }),

    /** The same by minute, and by error. @param of clusters and groups, few */
    faultMinutes: async (from: number, of: readonly FaultyObject[]): Promise<readonly FaultMinute[]> => {
      if (of.length === 0) return [];
      return await database.run(async (knex) => {
        const rows = (await knex('eg_query_outcomes')
          .where('created', '>=', from)
          .whereNot('state', RUNNING)
          .where((any) => {
            for (const { cluster, group } of of) {
              if (cluster !== null) any.orWhere({ cluster });
              else if (group !== null) any.orWhere({ routing_group: group });
              else any.orWhereRaw('1 = 1');
            }
          })
          .groupBy('cluster', 'routing_group', 'slot', 'error_name')
          .select(
            'cluster',
            'routing_group',
            'error_name',
            knex.raw(`${slot} as slot`, [MINUTE_MS]),
            knex.raw('count(*) as ended'),
            knex.raw(`${sumOf(isFault)} as faults`),
          )
          .orderBy('slot', 'desc')
          .limit(MAX_MINUTES)) as unknown as MinuteRow[];
        return rows.map((row) => ({
          cluster: row.cluster,
          group: row.routing_group,
          start: Number(row.slot) * MINUTE_MS,
          ended: Number(row.ended),
          faults: Number(row.faults),
          errorName: row.error_name,
        }));
      });
    },
  };
}

function faultCounts(rows: readonly FaultRow[]): FaultCounts[] {
  const sum = (of: readonly FaultRow[], name: keyof Omit<FaultRow, 'cluster' | 'routing_group'>) =>
    of.reduce((total, row) => total + Number(row[name]), 0);
  const count = (
    cluster: string | null,
    group: string | null,
    all: readonly FaultRow[],
    faulty: readonly FaultRow[],
  ) => ({
    ...{ cluster, group },
    groups: faulty.flatMap((row) =>
      row.routing_group !== null && Number(row.recent_faults) > 0 ? [row.routing_group] : [],
    ),
    before: { ended: sum(all, 'before_ended'), faults: sum(faulty, 'before_faults') },
    recent: { ended: sum(all, 'recent_ended'), faults: sum(faulty, 'recent_faults') },
  });
  const counts: FaultCounts[] = [];
  for (const [cluster, own] of Map.groupBy(rows, (row) => row.cluster)) {
    if (cluster !== null) counts.push(count(cluster, null, own, own));
  }
  for (const [group, own] of Map.groupBy(rows, (row) => row.routing_group)) {
    const notTaken = own.filter((row) => row.cluster === null);
    if (notTaken.length > 0) counts.push(count(null, group, group === null ? rows : own, notTaken));
  }
  return counts;
}

class Line {
  readonly #sums = { queries: 0, ended: 0, failures: 0, userErrors: 0, refused: 0 };
  readonly #elapsed = new Map<number, number>();
  readonly #queued = new Map<number, number>();

  addElapsed(row: ElapsedRow): void {
    this.#sums.queries += Number(row.queries);
    this.#sums.ended += Number(row.ended);
    this.#sums.failures += Number(row.failures);
    this.#sums.userErrors += Number(row.user_errors);
    this.#sums.refused += Number(row.refused);
    if (row.bucket !== null) add(this.#elapsed, row);
  }

  addQueued(row: QueuedRow): void {
    add(this.#queued, row);
  }

  rates(start: number): IntervalRates {
    const { queries, ended, failures, userErrors, refused } = this.#sums;
    const durations = { elapsedMillis: percentiles(this.#elapsed), queuedMillis: percentiles(this.#queued) };
    return { start, queries, ended, failures, userErrors, refused, ...durations };
  }
}

function add(
  buckets: Map<number, number>,
  { bucket, timed }: { readonly bucket: Figure; readonly timed: Figure },
): void {
  buckets.set(Number(bucket), (buckets.get(Number(bucket)) ?? 0) + Number(timed));
}

function percentiles(buckets: ReadonlyMap<number, number>): RatePercentiles {
  const within = durationPercentiles(buckets);
  return { p50: within(0.5), p95: within(0.95) };
}

/** The same times in parts that a statement counts within its time limit. */
function partsOf({ from, to, length }: CountedIntervals): CountedIntervals[] {
  const parts: CountedIntervals[] = [];
  for (let start = from; start < to; start += PART_MS) {
    parts.push({ from: start, to: Math.min(start + PART_MS, to), length });
  }
  return parts;
}
