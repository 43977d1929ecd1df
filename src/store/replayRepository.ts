import { batches, cutToWidth } from './columns.ts';
import type { Database } from './database.ts';

/** Results in a statement. */
const MAX_ROWS = 100;

/** Progress and results of replays, as JSON (docs/database.md#replays). */
export class ReplayRepository {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Progress of all replays, by uid of their resources. */
  async all(): Promise<ReadonlyMap<string, string>> {
    const rows = await this.#database.run((knex) => knex('eg_replays').select('id', 'progress'));
    return new Map(rows.map(({ id, progress }) => [id, progress]));
  }

  /** Stores the progress of a replay. @param begins true: its results so far are deleted */
  async put(id: string, progress: string, begins = false): Promise<void> {
    await this.#database.transaction(async (trx) => {
      if (begins) await trx('eg_replay_results').where({ replay_id: id }).delete();
      await trx('eg_replays').insert({ id, progress }).onConflict('id').merge();
    });
  }

  async putResults(id: string, results: readonly { readonly queryId: string }[]): Promise<void> {
    const rows = results.map((result) => {
      const queryId = cutToWidth(result.queryId, 256);
      return { replay_id: id, query_id: queryId, result: JSON.stringify(result) };
    });
    for (const some of batches(rows, MAX_ROWS))
      await this.#database.run((knex) =>
        knex('eg_replay_results').insert(some).onConflict(['replay_id', 'query_id']).merge(),
      );
  }

  async results(id: string): Promise<readonly string[]> {
    return await this.#database.run((knex) => knex('eg_replay_results').where({ replay_id: id }).pluck('result'));
  }

  async delete(id: string): Promise<void> {
    await this.#database.transaction(async (trx) => {
      await trx('eg_replay_results').where({ replay_id: id }).delete();
      await trx('eg_replays').where({ id }).delete();
    });
  }
}
