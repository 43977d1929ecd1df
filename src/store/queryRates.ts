import type { Knex } from 'knex';
import type { Database } from './database.ts';
import type { TimeRange } from './digestFigures.ts';
import { ALL_QUERIES, endingsOf, HOUR_MS, queuedOf, type SumRow, sourcesOf, whereKeyWithin } from './hourlySums.ts';
import { type CountedIntervals, intervalParts, runStatements, slotOf } from './queryCounts.ts';
import { failureConditions, RUNNING } from './queryOutcome.ts';
import { EndedFigures } from './queryStatistics.ts';

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
/** Most intervals of a part of a range. */
const MAX_INTERVALS = 10_000;
/** Most pairs of cluster and group in one response. */
const MAX_PAIRS = 2_000;
/** Minutes and errors of the pairs that are looked at closely. */
const MAX_MINUTES = 5_000;
const MINUTE_MS = 60_000;

const isFault = `(${failureConditions.failed} or ${failureConditions.refused})`;
const sumOf = (condition: string) => `sum(case when ${condition} then 1 else 0 end)`;

interface FaultRow extends Readonly<Record<'beforeEnded' | 'beforeFaults' | 'recentEnded' | 'recentFaults', number>> {
  readonly cluster: string | null;
  readonly group: string | null;
}

/** Figures by time over `eg_query_outcomes`. */
export function queryRates(database: Database) {
  const slot = slotOf(database.dialect.name);
  const within = (queries: Knex.QueryBuilder, { from, to }: TimeRange) =>
    queries.where('created', '>=', from).where('created', '<', to);

  return {
    /**
     * In order of time; intervals without queries are left out. If intervals have whole hours, hours that are summed are read from
     * their sums.
     */
    perInterval: async (intervals: CountedIntervals): Promise<readonly IntervalRates[]> => {
      const { length, from, to } = intervals;
      const lines = new Map<number, { readonly figures: EndedFigures; running: number }>();
      const lineOf = (number: unknown) =>
        lines.getOrInsertComputed(Number(number), () => ({ figures: new EndedFigures(null), running: 0 }));
      const readSums = async (knex: Knex): Promise<readonly TimeRange[]> => {
        const { summed, single } = await sourcesOf(knex, intervals, true);
        const hours = summed.map((range) => ({ from: range.from / HOUR_MS, to: range.to / HOUR_MS }));
        const sums = whereKeyWithin(knex('eg_query_sums').where('dimension', ALL_QUERIES), hours);
        const rows: (SumRow & { readonly hour: number })[] = hours.length === 0 ? [] : await sums;
        for (const row of rows) {
          const { figures } = lineOf(Math.floor((row.hour * HOUR_MS) / length));
          figures.addEndings(row);
          figures.addQueued(row);
        }
        return single;
      };
      const single = length % HOUR_MS === 0 ? await database.snapshot(readSums) : [{ from, to }];
      const number = slot.replace('?', `${length}`);
      const parts = single.flatMap((range) =>
        intervalParts({ ...range, length }, Math.ceil((range.to - range.from) / PART_MS)),
      );
      const rowsOf = <Row>(of: (...args: Parameters<typeof endingsOf>) => Promise<readonly Row[]>, part: TimeRange) =>
        database.run((knex) => of(database, knex, knex.raw(number), MAX_INTERVALS, (all) => within(all, part)));
      await runStatements([
        ...parts.flatMap((part) => [
          async () => {
            for (const row of await rowsOf(endingsOf, part)) lineOf(row.value).figures.addEndings(row);
          },
          async () => {
            for (const row of await rowsOf(queuedOf, part)) lineOf(row.value).figures.addQueued(row);
          },
        ]),
        async () => {
          const running: { slot: number; queries: number }[] = await database.run((knex) =>
            within(knex('eg_query_outcomes'), { from, to })
              .where('state', RUNNING)
              .groupBy('slot')
              .select({ slot: knex.raw(number), queries: knex.raw('count(*)') }),
          );
          for (const row of running) lineOf(row.slot).running = row.queries;
        },
      ]);
      return [...lines].sort(([a], [b]) => a - b).map(([number, line]) => ratesOf(number * length, line));
    },

    /** Errors of queries that failed, were lost, rejected or denied, most frequent first. */
    errors: ({ from, to, limit }: ErrorRange): Promise<readonly ErrorCount[]> =>
      database.run(
        async (knex) =>
          (await within(knex('eg_query_outcomes'), { from, to })
            .whereIn('state', ['FAILED', 'LOST', 'REFUSED', 'DENIED'])
            .groupBy('state', 'error_name', 'error_type')
            .select({ state: 'state', errorName: 'error_name', errorType: 'error_type', queries: knex.raw('count(*)') })
            .orderByRaw('count(*) desc')
            .orderBy(['error_name', 'state'])
            .limit(limit)) as ErrorCount[],
      ),

    /**
     * Faults of clusters and of routing groups since a time: queries that failed with an error that is not the user's, that were lost, or
     * that the gateway rejected.
     */
    faults: ({ from, recentFrom }: FaultTimes): Promise<readonly FaultCounts[]> =>
      database.run(async (knex) => {
        const sum = (condition: string) => knex.raw(sumOf(condition), [recentFrom]);
        const rows = (await knex('eg_query_outcomes')
          .where('created', '>=', from)
          .whereNot('state', RUNNING)
          .groupBy('cluster', 'routing_group')
          .select({
            ...{ cluster: 'cluster', group: 'routing_group' },
            beforeEnded: sum('created < ?'),
            beforeFaults: sum(`created < ? and ${isFault}`),
            recentEnded: sum('created >= ?'),
            recentFaults: sum(`created >= ? and ${isFault}`),
          })
          .orderByRaw(`${sumOf(`created >= ? and ${isFault}`)} desc`, [recentFrom])
          .limit(MAX_PAIRS)) as FaultRow[];
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
          .groupBy('cluster', 'routing_group', 'start', 'error_name')
          .select({
            ...{ cluster: 'cluster', group: 'routing_group', errorName: 'error_name' },
            start: knex.raw(slot, [MINUTE_MS]),
            ended: knex.raw('count(*)'),
            faults: knex.raw(sumOf(isFault)),
          })
          .orderBy('start', 'desc')
          .limit(MAX_MINUTES)) as FaultMinute[];
        return rows.map((row) => ({ ...row, start: row.start * MINUTE_MS }));
      });
    },
  };
}

function faultCounts(rows: readonly FaultRow[]): FaultCounts[] {
  const sum = (of: readonly FaultRow[], name: keyof Omit<FaultRow, 'cluster' | 'group'>) =>
    of.reduce((total, row) => total + row[name], 0);
  const count = (
    cluster: string | null,
    group: string | null,
    all: readonly FaultRow[],
    faulty: readonly FaultRow[],
  ) => ({
    ...{ cluster, group },
    groups: faulty.flatMap((row) => (row.group !== null && row.recentFaults > 0 ? [row.group] : [])),
    before: { ended: sum(all, 'beforeEnded'), faults: sum(faulty, 'beforeFaults') },
    recent: { ended: sum(all, 'recentEnded'), faults: sum(faulty, 'recentFaults') },
  });
  const counts: FaultCounts[] = [];
  for (const [cluster, own] of Map.groupBy(rows, (row) => row.cluster)) {
    if (cluster !== null) counts.push(count(cluster, null, own, own));
  }
  for (const [group, own] of Map.groupBy(rows, (row) => row.group)) {
    const notTaken = own.filter((row) => row.cluster === null);
    if (notTaken.length > 0) counts.push(count(null, group, group === null ? rows : own, notTaken));
  }
  return counts;
}

function ratesOf(
  start: number,
  { figures, running }: { readonly figures: EndedFigures; readonly running: number },
): IntervalRates {
  const { queries: ended, states, userErrors, elapsedMillis, queuedMillis } = figures.statistics();
  const failures = (states.FAILED ?? 0) + (states.LOST ?? 0) - userErrors;
  return {
    ...{ start, queries: ended + running, ended, failures, userErrors, refused: states.REFUSED ?? 0 },
    elapsedMillis: { p50: elapsedMillis.p50, p95: elapsedMillis.p95 },
    queuedMillis: { p50: queuedMillis.p50, p95: queuedMillis.p95 },
  };
}
