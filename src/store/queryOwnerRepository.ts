import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { Fence, QueryOwnerRow } from './store.ts';

interface Row {
  readonly query_id: string;
  readonly cluster: string;
  readonly base_url: string;
  readonly created: number;
}

const fromRow = ({ query_id, cluster, base_url, created }: Row): QueryOwnerRow => ({
  queryId: query_id,
  cluster,
  proxyTo: base_url,
  created,
});

const columnsOf = ({ queryId, cluster, proxyTo, created }: QueryOwnerRow) => ({
  query_id: queryId,
  cluster,
  base_url: proxyTo,
  created,
});

/** `eg_queries`: owners of queries whose ids end in no suffix. */
export class QueryOwnerRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  get(queryId: string): Promise<QueryOwnerRow | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_queries').where('query_id', queryId).first();
      return row === undefined ? null : fromRow(row);
    });
  }

  /** Stores the owner of an id that has none. @returns the row that is there afterwards: another one when that was first */
  learn(row: QueryOwnerRow): Promise<QueryOwnerRow> {
    return this.database.run(async (knex) => {
      await knex('eg_queries').insert(columnsOf(row)).onConflict('query_id').ignore();
      const stored: Row | undefined = await knex('eg_queries').where('query_id', row.queryId).first();
      return stored === undefined ? row : fromRow(stored);
    });
  }

  /** Gives an id to another owner where the stored row has the base URL `from`. @returns the row that is there afterwards */
  replace(row: QueryOwnerRow, from: string): Promise<QueryOwnerRow> {
    return this.database.run(async (knex) => {
      await knex('eg_queries').where({ query_id: row.queryId, base_url: from }).update(columnsOf(row));
      const stored: Row | undefined = await knex('eg_queries').where('query_id', row.queryId).first();
      return stored === undefined ? row : fromRow(stored);
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_queries', 'created', before, fence);
  }
}
