import { agedTable } from './deletion.ts';
import type { CounterUse } from './store.ts';

const MAX_COUNTERS = 20_000;

/** Use of `eg_limit_counters`, and `eg_refusals` (docs/database.md#tables). */
export class LimitCountRepository extends agedTable('eg_refusals', 'counted') {
  /** Counters of which something is in use; at most 20,000. */
  inUse(): Promise<readonly CounterUse[]> {
    return this.database.run(async (knex) => {
      const used = knex('eg_limit_counters').where('in_use', '>', 0).limit(MAX_COUNTERS);
      return (await used.select({ key: 'limit_key', inUse: 'in_use' })) as CounterUse[];
    });
  }

  /** Submissions refused, by the name that they were counted under. */
  rejections(): Promise<ReadonlyMap<string, number>> {
    return this.database.run(async (knex) => {
      const rows = (await knex('eg_refusals').select('name', 'refused').limit(MAX_COUNTERS)) as {
        name: string;
        refused: number;
      }[];
      return new Map(rows.map(({ name, refused }) => [name, refused]));
    });
  }

  /** @param counts how many more were refused, by name: at most 256 characters of ASCII */
  addRejections(counts: ReadonlyMap<string, number>): Promise<void> {
    const { clockMs } = this.database.dialect;
    // In one order everywhere, so that two transactions do not wait for each other.
    const sorted = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
    return this.database.transaction(async (trx) => {
      for (const [name, count] of sorted) {
        await trx('eg_refusals').insert({ name, refused: 0, counted: 0 }).onConflict('name').ignore();
        await trx('eg_refusals')
          .where({ name })
          .update({ refused: trx.raw('refused + ?', [count]), counted: trx.raw(clockMs) });
      }
    });
  }
}
