import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import { cutToWidth } from './historyText.ts';
import type { Fence, RunningQueryRepository, RunningQueryRow } from './store.ts';

/** Rows that one statement takes at most: about 100 KB; with the longest names 2 MB, which any server takes. */
const BATCH = 1000;
/** Width of the columns of text in characters. */
const WIDTH = 256;

/** A row as drivers give it: big integers may come as text. */
interface Row {
  readonly query_id: string;
  readonly cluster: string;
  readonly started: number | string;
  readonly last_seen: number | string;
}

/** `eg_running_queries`: queries that clients are following. */
export class KnexRunningQueryRepository implements RunningQueryRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  put(rows: readonly RunningQueryRow[]): Promise<void> {
    const { dialect } = this.database;
    // By id: two may be the same once they are fitted, and a statement takes each once.
    const fitted = new Map<string, RunningQueryRow>();
    for (const row of rows) {
      const queryId = cutToWidth(row.queryId, WIDTH);
      fitted.set(queryId, { ...row, queryId, cluster: cutToWidth(row.cluster, WIDTH) });
    }
    return this.database.run(async (knex) => {
      for (const some of batches([...fitted.values()])) await dialect.putRunningQueries(knex, some);
    });
  }

  remove(queryIds: readonly string[]): Promise<void> {
    const { dialect } = this.database;
    const fitted = queryIds.map((queryId) => cutToWidth(queryId, WIDTH));
    return this.database.run(async (knex) => {
      for (const some of batches(fitted)) await dialect.removeRunningQueries(knex, some);
    });
  }

  ofCluster(cluster: string, seenSince: number): Promise<readonly RunningQueryRow[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_running_queries')
        .where('cluster', cutToWidth(cluster, WIDTH))
        .where('last_seen', '>=', seenSince)
        .orderBy(['started', 'query_id'])) as Row[];
      return rows.map((row) => ({
        queryId: row.query_id,
        cluster: row.cluster,
        started: Number(row.started),
        lastSeen: Number(row.last_seen),
      }));
    });
  }

  lastSeen(queryIds: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return this.database.run(async (knex) => {
      const times = new Map<string, number>();
      for (const some of batches(queryIds)) {
        const rows = (await knex('eg_running_queries')
          .whereIn('query_id', some)
          .select('query_id', 'last_seen')) as Row[];
        for (const row of rows) times.set(row.query_id, Number(row.last_seen));
      }
      return times;
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_running_queries', 'last_seen', before, fence);
  }
}

function* batches<T>(all: readonly T[]): Iterable<T[]> {
  for (let start = 0; start < all.length; start += BATCH) yield all.slice(start, start + BATCH);
}
