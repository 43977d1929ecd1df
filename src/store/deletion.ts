import type { Database } from './database.ts';
import { fenceHolds } from './leaderRepository.ts';
import type { Fence } from './store.ts';

/** Rows a deleting statement takes at most, so that it neither times out nor holds locks for long. */
const BATCH = 2000;

/**
 * Deletes all rows of a table whose `column` is below the bound, batch after batch; answers how many.
 * @param fence proof of leadership, checked in each batch's transaction: once it is lost, no further row goes; null for none
 */
export async function deleteInBatches(
  database: Database,
  table: string,
  column: string,
  bound: number,
  fence: Fence | null,
): Promise<number> {
  const { dialect } = database;
  let total = 0;
  for (;;) {
    const deleted =
      fence === null
        ? await database.run((knex) => dialect.deleteBatch(knex, table, column, bound, BATCH))
        : await database.transaction(async (trx) =>
            (await fenceHolds(trx, database, fence)) ? await dialect.deleteBatch(trx, table, column, bound, BATCH) : 0,
          );
    total += deleted;
    if (deleted < BATCH) return total;
  }
}
