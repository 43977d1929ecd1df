import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { Fence, RunningQueryRepository, RunningQueryRow } from './store.ts';

/** Rows that one statement takes at most. */
const BATCH = 500;

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
    return this.database.run(async (knex) => {
      for (const some of batches(rows)) {
        const columns = some.map(({ queryId, cluster, started, lastSeen }) => ({
          query_id: queryId,
          cluster,
          started,
          last_seen: lastSeen,
        }));
        await knex('eg_running_queries').insert(columns).onConflict('query_id').merge(['last_seen']);
      }
    });
  }

  remove(queryIds: readonly string[]): Promise<void> {
    return this.database.run(async (knex) => {
      for (const some of batches(queryIds)) await knex('eg_running_queries').whereIn('query_id', some).delete();
    });
  }

  ofCluster(cluster: string, seenSince: number): Promise<readonly RunningQueryRow[]> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_running_queries')
        .where('cluster', cluster)
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

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_running_queries', 'last_seen', before, fence);
  }
}

function* batches<T>(all: readonly T[]): Iterable<T[]> {
  for (let start = 0; start < all.length; start += BATCH) yield all.slice(start, start + BATCH);
}
