import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { Fence, QueryOwnerRepository, QueryOwnerRow } from './store.ts';

interface Row {
  readonly query_id: string;
  readonly cluster: string;
  readonly base_url: string;
  readonly created: number;
}

/** `eg_queries`: owners of queries whose suffix does not tell them (design.md, fixed point 7). */
export class KnexQueryOwnerRepository implements QueryOwnerRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  get(queryId: string): Promise<QueryOwnerRow | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_queries').where('query_id', queryId).first();
      if (row === undefined) return null;
      return { queryId: row.query_id, cluster: row.cluster, baseUrl: row.base_url, created: row.created };
    });
  }

  put(row: QueryOwnerRow): Promise<void> {
    return this.database.run(async (knex) => {
      const columns = { query_id: row.queryId, cluster: row.cluster, base_url: row.baseUrl, created: row.created };
      await knex('eg_queries').insert(columns).onConflict('query_id').merge();
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_queries', 'created', before, fence);
  }
}
