import type { Knex } from 'knex';
import type { Database } from './database.ts';
import type { Dialect } from './store.ts';

export interface QueryCount {
  /** Start of the interval, milliseconds since 1970; a whole multiple of its length. */
  readonly start: number;
  /** Registry name of the cluster; null if none is stored, as for queries of Trino Gateway, or requested. */
  readonly cluster: string | null;
  readonly backendUrl: string;
  readonly count: number;
}

/** Times and length of intervals, in milliseconds. */
export interface CountedIntervals {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** Counting in `query_history`. */
export type QueryCounts = ReturnType<typeof queryCounts>;

/** Longest time that is counted by name, in milliseconds. */
const NAMED = 50 * 3_600_000;
/** A statement may take seconds at most: of few URLs, which may have many rows each, each counts a part of the time. */
const FEW_URLS = 50;
const PARTS = 6;
/** Concurrent statements, of the pool's connections. */
const STATEMENTS_AT_ONCE = 3;

/**
 * All URLs of the history without reading its rows: from one URL of the index to the next. MySQL does so by itself
 * (loose index scan), the others with this recursive query.
 */
const nextUrl = `with recursive urls(url) as (
  select min(backend_url) from query_history
  union all
  select (select min(backend_url) from query_history where backend_url > url) from urls where url is not null
) select url from urls where url is not null`;
const allUrls: Readonly<Record<Dialect, string>> = {
  mysql: 'select backend_url as url from query_history where backend_url is not null group by backend_url',
  postgresql: nextUrl,
  sqlite: nextUrl,
};

/**
 * One URL's counts. Grouping by the interval alone is cheap where grouping by URL as well costs MySQL 5 µs a row;
 * PostgreSQL overestimates the number of groups and would sort the rows, so it counts each interval in the index.
 */
function countsOf(dialect: Dialect, url: string | null, { from, to, length }: CountedIntervals) {
  const isUrl = url === null ? 'backend_url is null' : 'backend_url = ?';
  const value = url === null ? [] : [url];
  if (dialect === 'postgresql') {
    return {
      sql: `select s.slot, c.queries from generate_series(cast(? as bigint), cast(? as bigint)) as s(slot)
        cross join lateral (select count(*) as queries from query_history where ${isUrl}
          and created >= greatest(s.slot * cast(? as bigint), cast(? as bigint))
          and created < least((s.slot + 1) * cast(? as bigint), cast(? as bigint))) c where c.queries > 0`,
      values: [Math.floor(from / length), Math.floor((to - 1) / length), ...value, length, from, length, to],
    };
  }
  return {
    sql: `select ${slotOf(dialect)} as slot, count(*) as queries from query_history
      where ${isUrl} and created >= ? and created < ? group by slot`,
    values: [length, ...value, from, to],
  };
}

/** Number of the interval of a query: MySQL's `/` gives a fraction. */
export function slotOf(dialect: Dialect): string {
  return dialect === 'mysql' ? 'created div ?' : 'created / cast(? as bigint)';
}

/** Counts in SQL, so that ten million rows never travel. */
export function queryCounts(database: Database) {
  const dialect = database.dialect.name;
  const ask = async <R>(knex: Knex, sql: string, values: readonly (string | number)[] = []): Promise<R[]> => {
    const response = await knex.raw(sql, values);
    if (dialect === 'sqlite') return response as R[];
    return (dialect === 'mysql' ? response[0] : response.rows) as R[];
  };

  const count = (url: string | null, intervals: CountedIntervals): Promise<QueryCount[]> =>
    database.run(async (knex) => {
      const { sql, values } = countsOf(dialect, url, intervals);
      const rows = await ask<{ readonly slot: number; readonly queries: number }>(knex, sql, values);
      return rows.map(({ slot, queries }) => ({
        ...{ start: slot * intervals.length, cluster: null, backendUrl: url ?? '', count: queries },
      }));
    });

  const countNamed = ({ from, to, length }: CountedIntervals): Promise<QueryCount[]> =>
    database.run(async (knex) => {
      const rows = (await knex('query_history as h')
        .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
        .select({
          start: knex.raw(`h.${slotOf(dialect)}`, [length]),
          backendUrl: 'h.backend_url',
          cluster: 'd.cluster',
        })
        .count({ count: '*' })
        .where('h.created', '>=', from)
        .where('h.created', '<', to)
        .groupBy('start', 'd.cluster', 'h.backend_url')
        .orderBy(['start', 'd.cluster', 'h.backend_url'])) as unknown as QueryCount[];
      return rows.map((row) => ({
        ...row,
        start: row.start * length,
        cluster: row.cluster === '' ? null : row.cluster,
        backendUrl: row.backendUrl ?? '',
      }));
    });

  return {
    /**
     * Queries created within the times by interval, cluster and its URL, in order of interval and URL. Up to 50 hours by
     * name as well, because clusters may share a URL; more only by URL, in an index: for names every row would have to be read.
     */
    perInterval: async (intervals: CountedIntervals): Promise<readonly QueryCount[]> => {
      if (intervals.to - intervals.from <= NAMED) return countNamed(intervals);
      const rows = await database.run((knex) => ask<{ url: string }>(knex, allUrls[dialect]));
      const urls: (string | null)[] = [...rows.map(({ url }) => url), null];
      const parts = intervalParts(intervals, urls.length > FEW_URLS ? 1 : PARTS);
      const counts: QueryCount[] = [];
      await runStatements(
        urls.flatMap((url) => parts.map((part) => async () => void counts.push(...(await count(url, part))))),
      );
      return counts.sort((a, b) => a.start - b.start || (a.backendUrl < b.backendUrl ? -1 : 1));
    },
  };
}

/** Runs statements of one question, a few concurrently. */
export async function runStatements(statements: readonly (() => Promise<void>)[]): Promise<void> {
  const left = [...statements];
  const work = async () => {
    for (let next = left.pop(); next !== undefined; next = left.pop()) await next();
  };
  await Promise.all(Array.from({ length: STATEMENTS_AT_ONCE }, work));
}

/** The same times in parts, each of whole intervals but for the ends. */
export function intervalParts({ from, to, length }: CountedIntervals, parts: number): CountedIntervals[] {
  const step = Math.max(1, Math.ceil((to - from) / length / parts)) * length;
  const list: CountedIntervals[] = [];
  for (let start = from; start < to; ) {
    const end = Math.min(Math.floor(start / length) * length + step, to);
    list.push({ from: start, to: end, length });
    start = end;
  }
  return list;
}
