import type { Database } from './database.ts';

/** How many queries of the history a cluster's URL had in one interval. */
export interface QueryCount {
  /** Start of the interval, milliseconds since 1970; a whole multiple of its length. */
  readonly start: number;
  readonly backendUrl: string;
  readonly count: number;
}

/** Counting in `query_history`, by the index on `created`. */
export interface QueryCounts {
  /**
   * Queries created at or after `from` (milliseconds since 1970) by interval and cluster URL, in order of both.
   * @param intervalMs length of the intervals
   */
  perInterval(from: number, intervalMs: number): Promise<readonly QueryCount[]>;
}

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly slot: number | string;
  readonly url: string | null;
  readonly count: number | string;
}

/** Counts in SQL, so that ten million rows never travel. */
export function queryCounts(database: Database): QueryCounts {
  // Whole-number division: MySQL's `/` gives a fraction.
  const interval = database.dialect.name === 'mysql' ? 'created div ?' : 'created / cast(? as bigint)';
  return {
    perInterval: (from, intervalMs) =>
      database.run(async (knex) => {
        const query = knex('query_history')
          .select(knex.raw(`${interval} as slot`, [intervalMs]), { url: 'backend_url' })
          .count({ count: '*' })
          .where('created', '>=', from)
          .groupBy('slot', 'url')
          .orderBy('slot')
          .orderBy('url');
        const rows = (await query) as unknown as Row[];
        return rows.map(({ slot, url, count }) => ({
          start: Number(slot) * intervalMs,
          backendUrl: url ?? '',
          count: Number(count),
        }));
      }),
  };
}
