import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { Fence, TransactionRow } from './store.ts';

interface Row {
  readonly transaction_id: string;
  readonly cluster: string;
  readonly base_url: string;
  readonly created: number | string;
}

const fromRow = (row: Row): TransactionRow => ({
  transactionId: row.transaction_id,
  cluster: row.cluster,
  proxyTo: row.base_url,
  created: Number(row.created),
});

/** `eg_transactions`: the clusters of transactions that clients have begun (docs/routing.md#transactions). */
export class TransactionRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  get(transactionId: string): Promise<TransactionRow | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_transactions').where('transaction_id', transactionId).first();
      return row === undefined ? null : fromRow(row);
    });
  }

  /** Stores a new transaction; returns the row that is there afterwards: the first one stays. */
  begin(row: TransactionRow): Promise<TransactionRow> {
    return this.database.run(async (knex) => {
      const columns = {
        transaction_id: row.transactionId,
        cluster: row.cluster,
        base_url: row.proxyTo,
        created: row.created,
      };
      await knex('eg_transactions').insert(columns).onConflict('transaction_id').ignore();
      const stored: Row | undefined = await knex('eg_transactions').where('transaction_id', row.transactionId).first();
      return stored === undefined ? row : fromRow(stored);
    });
  }

  /** Deletes a transaction, if it belongs to the cluster at the base URL. */
  end(transactionId: string, proxyTo: string): Promise<void> {
    return this.database.run(async (knex) => {
      await knex('eg_transactions').where({ transaction_id: transactionId, base_url: proxyTo }).delete();
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_transactions', 'created', before, fence);
  }
}
