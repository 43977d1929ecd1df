import type { Knex } from 'knex';
import { Turns } from '../model/turns.ts';
import type { Database } from './database.ts';
import { readPairs } from './digestFigures.ts';
import { addCount, durationPercentiles } from './durationBucket.ts';
import {
  type EndingsRow,
  endingsOf,
  type Narrowing,
  type QueuedRow,
  queuedOf,
  readEndings,
  type SummedSources,
  type SumRow,
  sourcesOf,
  statesByPlace,
  USER_ERROR_PLACE,
  whereKeyWithin,
} from './hourlySums.ts';
import { type QueryState, queryStates, RUNNING } from './queryOutcome.ts';
import { countedQueries, dimensionColumns, type StatisticsDimension } from './statisticsDimension.ts';

/** Percentiles of a duration, milliseconds; null if no query said it. */
export interface Percentiles {
  readonly p50: number | null;
  readonly p95: number | null;
  readonly p99: number | null;
}

export interface QueryStatistics {
  /** Null: the queries that have none. */
  readonly value: string | null;
  readonly queries: number;
  /** By how they ended; those that none ended in are left out. */
  readonly states: Readonly<Partial<Record<QueryState, number>>>;
  /** Of the FAILED ones those with an error of the user (`USER_ERROR`). */
  readonly userErrors: number;
  readonly elapsedMillis: Percentiles;
  readonly queuedMillis: Percentiles;
  readonly cpuMillis: number;
  readonly processedBytes: number;
  readonly resultBytes: number;
}

/** Which queries are counted, and by what. Times in milliseconds, `from` inclusive, `to` exclusive. */
export interface StatisticsRequest {
  readonly by: StatisticsDimension;
  readonly from: number;
  readonly to: number;
  /** Only this user's; left out: those of all. */
  readonly user?: string;
  /** Only those of a cluster, of a routing group; left out: of all. */
  readonly cluster?: string;
  readonly routingGroup?: string;
  readonly limit: number;
}

/** Figures of queries that have ended, counted in SQL (docs/rest-api.md#statistics). */
export type QueryStatisticsRepository = ReturnType<typeof queryStatistics>;

const filters = ['user', 'cluster', 'routingGroup'] as const;
const SUMS_A_STATEMENT = 4_000;

/** Figures over `eg_query_sums`, and over `eg_query_outcomes` where an hour is not summed or counted in part. */
export function queryStatistics(database: Database) {
  return {
    /** Values with most queries first. */
    of: (request: StatisticsRequest): Promise<readonly QueryStatistics[]> =>
      database.addUp(async (knex) => {
        // Sums are by one dimension: a filter by another one asks for the queries.
        const hasSums = filters.every((filter) => filter === request.by || request[filter] === undefined);
        const sources = await sourcesOf(knex, request, hasSums);
        const values = await valuesWithMost(knex, request, sources);
        if (values.length === 0) return [];
        const figures = new Map(values.map((value) => [value, new EndedFigures(value)]));
        const figuresOf = (value: string | null): EndedFigures => {
          const present = figures.get(value) ?? new EndedFigures(value);
          figures.set(value, present);
          return present;
        };
        const turns = new Turns();
        const addAll = async <Row extends { value: string | null }>(
          rows: readonly Row[],
          addTo: (figures: EndedFigures, row: Row) => void,
        ) => {
          for (const row of rows) {
            addTo(figuresOf(row.value), row);
            if (turns.isOver) await turns.next();
          }
        };
        if (sources.single.length > 0) {
          const narrow: Narrowing = (queries) => {
            whereValue(narrowed(queries, request, sources), dimensionColumns[request.by], values);
            return queries;
          };
          const of = [database, knex, request.by, values.length, narrow] as const;
          await addAll(await endingsOf(...of), (to, row) => to.addEndings(row));
          await addAll(await queuedOf(...of), (to, row) => to.addQueued(row));
        }
        for await (const rows of sums(knex, request, sources, values)) {
          await addAll(rows, (to, row) => {
            to.addEndings(row);
            to.addQueued(row);
          });
        }
        return [...figures.values()].map((each) => each.statistics()).sort(mostFirst);
      }),
  };
}

function narrowed(query: Knex.QueryBuilder, request: StatisticsRequest, { single }: SummedSources): Knex.QueryBuilder {
  query.where((any) => {
    for (const { from, to } of single) any.orWhere((one) => one.where('created', '>=', from).where('created', '<', to));
  });
  for (const filter of filters) {
    const value = request[filter];
    if (value !== undefined) query.where(dimensionColumns[filter], value);
  }
  return query;
}

function summed(knex: Knex, request: StatisticsRequest, sources: SummedSources): Knex.QueryBuilder {
  const query = whereKeyWithin(knex('eg_query_sums').where('dimension', request.by), sources.keys);
  const value = filters.map((filter) => request[filter]).find((each) => each !== undefined);
  return value === undefined ? query : query.where('value', value);
}

async function valuesWithMost(
  knex: Knex,
  request: StatisticsRequest,
  sources: SummedSources,
): Promise<readonly (string | null)[]> {
  const column = dimensionColumns[request.by];
  const parts = [
    ...(sources.single.length === 0
      ? []
      : [
          narrowed(countedQueries(knex, request.by), request, sources)
            .whereNot('state', RUNNING)
            .count({ queries: '*' })
            .select({ value: column })
            .groupBy(column),
        ]),
    ...(sources.summed.length === 0
      ? []
      : [summed(knex, request, sources).sum({ queries: 'queries' }).select('value').groupBy('value')]),
  ];
  if (parts.length === 0) return [];
  const rows = (await knex
    .from(knex.unionAll(parts).as('t'))
    .groupBy('value')
    .orderByRaw('sum(queries) desc, value')
    .limit(request.limit)
    .select('value')) as unknown as readonly { readonly value: string | null }[];
  return rows.map(({ value }) => value);
}

function whereValue(query: Knex.QueryBuilder, column: string, values: readonly (string | null)[]): void {
  const named = values.filter((value) => value !== null);
  query.where((either) => {
    either.whereIn(column, named);
    if (named.length < values.length) either.orWhereNull(column);
  });
}

async function* sums(
  knex: Knex,
  request: StatisticsRequest,
  sources: SummedSources,
  values: readonly (string | null)[],
): AsyncIterable<readonly SumRow[]> {
  const hours = sources.keys.reduce((total, { from, to }) => total + to - from, 0);
  if (hours === 0) return;
  const atOnce = Math.max(1, Math.floor(SUMS_A_STATEMENT / hours));
  for (let start = 0; start < values.length; start += atOnce) {
    const query = summed(knex, request, sources).select('*');
    whereValue(query, 'value', values.slice(start, start + atOnce));
    yield (await query) as unknown as readonly SumRow[];
  }
}

function mostFirst(a: QueryStatistics, b: QueryStatistics): number {
  return b.queries - a.queries || ((a.value ?? '') < (b.value ?? '') ? -1 : 1);
}

/** Figures of queries that can be added up. */
export class EndedFigures {
  readonly #value: string | null;
  readonly #states = new Map<QueryState | undefined, number>();
  #userErrors = 0;
  readonly #elapsed = new Map<number, number>();
  readonly #queued = new Map<number, number>();
  readonly #use = { cpuMillis: 0, processedBytes: 0, resultBytes: 0 };

  constructor(value: string | null) {
    this.#value = value;
  }

  addEndings({ endings, cpu_ms: cpu, processed_bytes: bytes, result_bytes: results }: EndingsRow): void {
    readEndings(endings, (place, bucket, queries) => {
      const isUserError = place === USER_ERROR_PLACE;
      if (isUserError) this.#userErrors += queries;
      addCount(this.#states, statesByPlace[place], queries);
      if (bucket !== null) addCount(this.#elapsed, bucket, queries);
    });
    this.#use.cpuMillis += cpu ?? 0;
    this.#use.processedBytes += bytes ?? 0;
    this.#use.resultBytes += results ?? 0;
  }

  addQueued({ queued }: QueuedRow): void {
    readPairs(queued, (bucket, queries) => addCount(this.#queued, bucket, queries));
  }

  statistics(): QueryStatistics {
    const states = queryStates.flatMap((state) => {
      const count = this.#states.get(state) ?? 0;
      return count > 0 ? [[state, count] as const] : [];
    });
    return {
      value: this.#value,
      queries: [...this.#states.values()].reduce((sum, count) => sum + count, 0),
      states: Object.fromEntries(states),
      userErrors: this.#userErrors,
      elapsedMillis: percentiles(this.#elapsed),
      queuedMillis: percentiles(this.#queued),
      ...this.#use,
    };
  }
}

function percentiles(buckets: ReadonlyMap<number, number>): Percentiles {
  const within = durationPercentiles(buckets);
  return { p50: within(0.5), p95: within(0.95), p99: within(0.99) };
}
