import { type Database, fenceHolds } from './database.ts';
import type { Fence } from './store.ts';

/**
 * Rows a deleting statement takes at most, so that it neither times out nor holds locks for long. SQLite deletes on the
 * main thread: a statement blocks the event loop.
 */
const BATCH = { postgresql: 2000, mysql: 2000, sqlite: 200 } as const;

/**
 * Deletes all rows of a table whose `column` is below the bound, batch after batch; returns their number.
 * @param fence proof of leadership, checked in each batch's transaction: once it is lost, no further row goes; null for
 * none
 */
export async function deleteInBatches(
  database: Database,
  table: string,
  column: string,
  bound: number,
  fence: Fence | null,
): Promise<number> {
  const { dialect } = database;
  const batch = BATCH[dialect.name];
  let total = 0;
  for (;;) {
    const deleted =
      fence === null
        ? await database.run((knex) => dialect.deleteBatch(knex, table, column, bound, batch))
        : await database.transaction(async (trx) =>
            (await fenceHolds(trx, database, fence)) ? await dialect.deleteBatch(trx, table, column, bound, batch) : 0,
          );
    total += deleted;
    if (deleted < batch) return total;
  }
}

/**
 * Base of the repositories of a table.
 * @param column rows are deleted by this time, in milliseconds since 1970
 */
export function agedTable(table: string, column: string) {
  return class {
    protected readonly database: Database;

    constructor(database: Database) {
      this.database = database;
    }

    /** Deletes the rows of before a time, as long as the fence holds (null: no fence); returns their number. */
    deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
      return deleteInBatches(this.database, table, column, before, fence);
    }
  };
}
