import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import { Turns } from '../model/turns.ts';
import type { Database } from './database.ts';
import {
  addTotals,
  type CountedRow,
  DigestFigures,
  type DigestTotals,
  digestIn,
  digestSums,
  endedQueries,
  figuresOf,
  noTotals,
  type TimeRange,
} from './digestFigures.ts';
import { HOUR_MS, sourcesOf } from './hourlySums.ts';
import { type QueryInput, RUNNING } from './queryOutcome.ts';

/** Orders of digests; `growth`: by processor time that they use more than in the range before. */
export const digestOrders = ['cpu', 'time', 'count', 'failures', 'growth'] as const;
export type DigestOrder = (typeof digestOrders)[number];

/** Which queries are counted. Times in milliseconds since 1970, `from` inclusive, `to` exclusive. */
export interface DigestFilter extends TimeRange {
  readonly routingGroup?: string;
  readonly cluster?: string;
  readonly user?: string;
  readonly source?: string;
}

/** Figures of the queries of a digest, and of those in the range of equal length before; null: without a digest. */
export interface CountedDigest {
  readonly digest: string | null;
  readonly shape: string | null;
  readonly figures: DigestFigures;
  readonly before: DigestFigures;
}

/** Values of queries with one digest, those with most queries first. */
export interface DigestValue {
  readonly value: string | null;
  readonly queries: number;
}

/** Figures of the queries of one digest. */
export interface DigestBreakdown {
  readonly shape: string | null;
  readonly figures: DigestFigures;
  /** By hour, in order; hours without queries are left out. `start` in milliseconds since 1970. */
  readonly hours: readonly { readonly start: number; readonly figures: DigestFigures }[];
  readonly values: Readonly<Record<DigestDimension, readonly DigestValue[]>>;
  /** Input by table of its newest queries, the largest first. */
  readonly inputs: readonly (QueryInput & { readonly queries: number })[];
}

const dimensions = {
  ...{ user: 'user_name', source: 'source', cluster: 'cluster', routingGroup: 'routing_group' },
  ...{ exactDigest: 'exact_digest', tool: 'tool', model: 'model', dashboard: 'dashboard' },
} as const;
export type DigestDimension = keyof typeof dimensions;
export const digestDimensions = Object.keys(dimensions) as readonly DigestDimension[];

/** Filters with columns of queries; sums are not by user and source. */
const queryColumns = {
  ...{ routingGroup: 'routing_group', cluster: 'cluster', user: 'user_name', source: 'source' },
} as const;
const MAX_VALUES = 10;
/** Newest queries of a digest that are counted by value, and of which inputs are added up. */
const MAX_VALUED_QUERIES = 10_000;
const MAX_INPUT_QUERIES = 1_000;
const MAX_TABLES = 20;
/** Queries of a request that are not in sums. */
const MAX_COUNTED = 500_000;

const orderValues: Readonly<Record<Exclude<DigestOrder, 'growth'>, (totals: DigestTotals) => number>> = {
  cpu: ({ cpu_ms }) => cpu_ms,
  time: ({ elapsed_ms }) => elapsed_ms,
  count: ({ queries }) => queries,
  failures: ({ failures }) => failures,
};

export type DigestStatistics = ReturnType<typeof digestStatistics>;

/** Figures by digest over `eg_digest_hours`, and over `eg_query_outcomes` where an hour is not summed or counted in part. */
export function digestStatistics(database: Database) {
  const narrowed = (queries: Knex.QueryBuilder, filter: DigestFilter) => {
    for (const [name, column] of Object.entries(queryColumns)) {
      const value = filter[name as keyof typeof queryColumns];
      if (value !== undefined) queries.where(column, value);
    }
    return queries;
  };
  const needsQueries = ({ user, source }: DigestFilter) => user !== undefined || source !== undefined;
  const rangesOf = (filter: DigestFilter) => database.run((knex) => sourcesOf(knex, filter, !needsQueries(filter)));
  const shapesOf = async (digests: readonly (string | null)[]): Promise<ReadonlyMap<string | null, string>> => {
    const rows: { digest: string; shape: string }[] = await database.run((knex) =>
      knex('eg_digests')
        .whereIn(
          'digest',
          digests.filter((digest) => digest !== null),
        )
        .select('digest', 'shape'),
    );
    return new Map(rows.map(({ digest, shape }) => [digest, shape]));
  };

  /** @throws GatewayError EG_MALFORMED if the ranges have too many queries */
  const countQueries = async (
    ranges: readonly TimeRange[],
    narrow: (queries: Knex.QueryBuilder) => Knex.QueryBuilder,
    add: (row: CountedRow) => void,
  ): Promise<void> => {
    const turns = new Turns();
    let left = MAX_COUNTED;
    for (const range of ranges) {
      for await (const rows of endedQueries(database, range, narrow)) {
        for (const row of rows) add(row);
        left -= rows.length;
        if (left < 0) {
          const message = `More than ${MAX_COUNTED} queries have to be counted: choose a later since or an earlier until.`;
          throw new GatewayError('EG_MALFORMED', message, { field: 'since' });
        }
        if (turns.isOver) await turns.next();
      }
    }
  };

  const ofDigests = (query: Knex.QueryBuilder, digests: readonly (string | null)[]) => {
    const named = digests.filter((digest) => digest !== null);
    return query.where((either) => {
      either.whereIn('digest', named);
      if (named.length < digests.length) either.orWhereNull('digest');
    });
  };

  /**
   * Totals of summed hours by digest, and figures of other queries.
   * @param digests only figures of these, without totals; null: of all
   */
  const totalsOf = async (filter: DigestFilter, digests: readonly (string | null)[] | null) => {
    const { keys, single } = await rangesOf(filter);
    const figures = new Map<string | null, DigestFigures>();
    await countQueries(
      single,
      (queries) => narrowed(digests === null ? queries : ofDigests(queries, digests), filter),
      (row) => figuresOf(figures, row.digest).addQuery(row),
    );
    const totals = new Map([...figures].map(([digest, each]) => [digest, { ...each.totals }]));
    if (digests === null) {
      for await (const { sums } of digestSums(database, keys, filter)) {
        for (const fields of sums) addTotals(totals.getOrInsertComputed(digestIn(fields), noTotals), fields);
      }
    }
    return { keys, figures, totals };
  };

  /** Adds the histograms of summed hours. */
  const withSums = async (
    filter: DigestFilter,
    { keys, figures }: Awaited<ReturnType<typeof totalsOf>>,
    digests: readonly (string | null)[],
  ) => {
    const chosen = new Set(digests);
    for await (const { sums } of digestSums(database, chosen.size === 0 ? [] : keys, filter)) {
      for (const fields of sums) {
        const digest = digestIn(fields);
        if (chosen.has(digest)) figuresOf(figures, digest).addSum(fields);
      }
    }
    return figures;
  };

  return {
    /** Digests with most of what the order states, first. */
    top: async (filter: DigestFilter, order: DigestOrder, limit: number): Promise<readonly CountedDigest[]> => {
      const earlier = { ...filter, from: 2 * filter.from - filter.to, to: filter.from };
      const now = await totalsOf(filter, null);
      const all = order === 'growth' ? await totalsOf(earlier, null) : null;
      const cpuBefore = (digest: string | null) => all?.totals.get(digest)?.cpu_ms ?? 0;
      const orderValue = ([digest, totals]: readonly [string | null, DigestTotals]) =>
        order === 'growth' ? totals.cpu_ms - cpuBefore(digest) : orderValues[order](totals);
      const digests = [...now.totals]
        .map((each) => [each[0], orderValue(each), each[1].queries] as const)
        .sort((a, b) => b[1] - a[1] || b[2] - a[2] || ((a[0] ?? '') < (b[0] ?? '') ? -1 : 1))
        .slice(0, limit)
        .map(([digest]) => digest);
      const figures = await withSums(filter, now, digests);
      const before = await withSums(earlier, all ?? (await totalsOf(earlier, digests)), digests);
      const shapes = await shapesOf(digests);
      return digests.map((digest) => ({
        ...{ digest, shape: shapes.get(digest) ?? null },
        ...{ figures: figuresOf(figures, digest), before: figuresOf(before, digest) },
      }));
    },

    /** Figures of one digest; null if none of its queries ended in the range. */
    of: async (digest: string, filter: DigestFilter): Promise<DigestBreakdown | null> => {
      const { summed, single } = await rangesOf(filter);
      const byHour = new Map<number, DigestFigures>();
      const narrow = (queries: Knex.QueryBuilder) => narrowed(queries.where({ digest }), filter);
      await countQueries(single, narrow, (row) => figuresOf(byHour, Math.floor(row.created / HOUR_MS)).addQuery(row));
      // By hour, of whole days, too.
      const hours = summed.map(({ from, to }) => ({ from: from / HOUR_MS, to: to / HOUR_MS }));
      for await (const { hour, sums } of digestSums(database, hours, { ...filter, digest })) {
        for (const fields of sums) figuresOf(byHour, hour).addSum(fields);
      }
      if (byHour.size === 0) return null;
      const figures = new DigestFigures();
      for (const each of byHour.values()) figures.merge(each);
      const newest = (knex: Knex, most: number) => {
        const queries = narrow(knex('eg_query_outcomes')).where('created', '>=', filter.from);
        return queries.where('created', '<', filter.to).orderBy('created', 'desc').limit(most);
      };
      const values: Partial<Record<DigestDimension, readonly DigestValue[]>> = {};
      for (const dimension of digestDimensions) {
        values[dimension] = await database.run(async (knex): Promise<DigestValue[]> => {
          const column = dimensions[dimension];
          return (await knex
            .from(newest(knex, MAX_VALUED_QUERIES).whereNot('state', RUNNING).select(column).as('q'))
            .groupBy(column)
            .select({ value: column })
            .count({ queries: '*' })
            .orderByRaw(`count(*) desc, ${column}`)
            .limit(MAX_VALUES)) as unknown as DigestValue[];
        });
      }
      const stored: (string | null)[] = await database.run((knex) => newest(knex, MAX_INPUT_QUERIES).pluck('inputs'));
      const shapes = await shapesOf([digest]);
      return {
        inputs: inputsOf(stored),
        ...{ shape: shapes.get(digest) ?? null, figures, values: values as DigestBreakdown['values'] },
        hours: [...byHour].sort(([a], [b]) => a - b).map(([hour, each]) => ({ start: hour * HOUR_MS, figures: each })),
      };
    },
  };
}

function inputsOf(stored: readonly (string | null)[]): DigestBreakdown['inputs'] {
  const byTable = new Map<string, { table: string; queries: number; rows: number; bytes: number }>();
  for (const text of stored) {
    for (const { table, rows, bytes } of text === null ? [] : (JSON.parse(text) as QueryInput[])) {
      const sum = byTable.getOrInsertComputed(table, () => ({ table, queries: 0, rows: 0, bytes: 0 }));
      sum.queries += 1;
      sum.rows += rows ?? 0;
      sum.bytes += bytes ?? 0;
    }
  }
  return [...byTable.values()].sort((a, b) => b.bytes - a.bytes || b.rows - a.rows).slice(0, MAX_TABLES);
}
