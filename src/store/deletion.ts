import type { Database } from './database.ts';

/** Rows a deleting statement takes at most, so that it neither times out nor holds locks for long. */
const BATCH = 2000;

/** Deletes all rows of a table whose `column` is below the bound, batch after batch; answers how many. */
export async function deleteInBatches(
  database: Database,
  table: string,
  column: string,
  bound: number,
): Promise<number> {
  let total = 0;
  for (;;) {
    const deleted = await database.run((knex) => database.dialect.deleteBatch(knex, table, column, bound, BATCH));
    total += deleted;
    if (deleted < BATCH) return total;
  }
}
