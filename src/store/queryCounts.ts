import type { Database } from './database.ts';

/** How many queries of the history a cluster had in one interval. */
export interface QueryCount {
  /** Start of the interval, milliseconds since 1970; a whole multiple of its length. */
  readonly start: number;
  /** Registry name of the cluster; null where none was kept, as for queries of a gateway that ran before. */
  readonly cluster: string | null;
  readonly backendUrl: string;
  readonly count: number;
}

/** Counting in `query_history`, by the index on `created`. */
export interface QueryCounts {
  /**
   * Queries created at or after `from` (milliseconds since 1970) by interval, cluster and its URL, in order of all.
   * By name as well, as clusters may share a URL (spec.md: Cluster (backend)).
   * @param intervalMs length of the intervals
   */
  perInterval(from: number, intervalMs: number): Promise<readonly QueryCount[]>;
}

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly slot: number | string;
  readonly url: string | null;
  readonly cluster: string | null;
  readonly count: number | string;
}

/** Counts in SQL, so that ten million rows never travel. */
export function queryCounts(database: Database): QueryCounts {
  // Whole-number division: MySQL's `/` gives a fraction.
  const interval = database.dialect.name === 'mysql' ? 'h.created div ?' : 'h.created / cast(? as bigint)';
  return {
    perInterval: (from, intervalMs) =>
      database.run(async (knex) => {
        const query = knex('query_history as h')
          .leftJoin('eg_query_decisions as d', 'd.query_id', 'h.query_id')
          .select(knex.raw(`${interval} as slot`, [intervalMs]), { url: 'h.backend_url', cluster: 'd.cluster' })
          .count({ count: '*' })
          .where('h.created', '>=', from)
          .groupBy('slot', 'cluster', 'url')
          .orderBy(['slot', 'cluster', 'url']);
        const rows = (await query) as unknown as Row[];
        return rows.map(({ slot, url, cluster, count }) => ({
          start: Number(slot) * intervalMs,
          cluster: cluster === '' ? null : cluster,
          backendUrl: url ?? '',
          count: Number(count),
        }));
      }),
  };
}
