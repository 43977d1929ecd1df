import { batches } from './columns.ts';
import { agedTable } from './deletion.ts';
import { cutToWidth } from './historyText.ts';

const BATCH = 200;
const WIDTH = 256;
/** Ids of one response; more come with the next one. */
const MAX_ENDED = 10_000;
/** Rows may be committed so much later than their time states. */
export const LATE_MS = 2_000;

/** `eg_ended_queries`: ends of queries whose slots another replica holds. */
export class EndedQueryRepository extends agedTable('eg_ended_queries', 'ended') {
  /** Adds ids, each at most 256 characters; those that are there stay. */
  put(queryIds: readonly string[]): Promise<void> {
    const fitted = [...new Set(queryIds.map((queryId) => cutToWidth(queryId, WIDTH)))];
    const { clockMs } = this.database.dialect;
    return this.database.run(async (knex) => {
      for (const some of batches(fitted, BATCH)) {
        const rows = some.map((id) => ({ query_id: id, ended: knex.raw(clockMs) }));
        await knex('eg_ended_queries').insert(rows).onConflict('query_id').ignore();
      }
    });
  }

  /**
   * Ids that were added since a mark, and the next mark; a few may come twice.
   * @param mark of the last call; null: only the next mark is wanted
   */
  since(mark: number | null): Promise<{ readonly queryIds: readonly string[]; readonly mark: number }> {
    return this.database.run(async (knex) => {
      const now = await this.database.time(knex);
      if (mark === null) return { queryIds: [], mark: now - LATE_MS };
      const rows = (await knex('eg_ended_queries')
        .where('ended', '>=', mark)
        .orderBy('ended')
        .limit(MAX_ENDED)
        .select('query_id', 'ended')) as { query_id: string; ended: number }[];
      const last = rows.length < MAX_ENDED ? now - LATE_MS : (rows.at(-1)?.ended ?? mark);
      return { queryIds: rows.map((row) => row.query_id), mark: Math.max(mark, last) };
    });
  }
}
