import type { Knex } from 'knex';
import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { CoordinatorRow, Fence } from './store.ts';

interface Row {
  readonly suffix: string;
  readonly cluster: string;
  readonly base_url: string;
  readonly cluster_uid: string | null;
  readonly last_seen: number;
}

/** Rows of one cluster: far more than a coordinator that restarts again and again needs in the 7 days that rows are kept. */
const MAX_ROWS_PER_CLUSTER = 256;

const fromRow = (row: Row): CoordinatorRow => ({
  suffix: row.suffix,
  cluster: row.cluster,
  proxyTo: row.base_url,
  ...(row.cluster_uid === null ? {} : { uid: row.cluster_uid }),
  lastSeen: row.last_seen,
});

const columnsOf = ({ suffix, cluster, proxyTo, uid, lastSeen }: CoordinatorRow) => ({
  suffix,
  cluster,
  base_url: proxyTo,
  cluster_uid: uid ?? null,
  last_seen: lastSeen,
});

/** `eg_coordinators`: who owns the query ids that end in a suffix. */
export class CoordinatorRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  all(): Promise<readonly CoordinatorRow[]> {
    return this.database.run(async (knex) => ((await knex('eg_coordinators').orderBy('suffix')) as Row[]).map(fromRow));
  }

  get(suffix: string): Promise<CoordinatorRow | null> {
    return this.database.run(async (knex) => {
      const row: Row | undefined = await knex('eg_coordinators').where('suffix', suffix).first();
      return row === undefined ? null : fromRow(row);
    });
  }

  /**
   * Stores a suffix that no row has; of many rows of one cluster the oldest are deleted.
   * @returns the row that is there afterwards: another one when that was first
   */
  learn(row: CoordinatorRow): Promise<CoordinatorRow> {
    return this.database.run(async (knex) => {
      await knex('eg_coordinators').insert(columnsOf(row)).onConflict('suffix').ignore();
      const stored: Row | undefined = await knex('eg_coordinators').where('suffix', row.suffix).first();
      if (stored?.cluster === row.cluster) await this.#deleteOldest(knex, row);
      return stored === undefined ? row : fromRow(stored);
    });
  }

  /**
   * Gives a suffix to another owner.
   * @param row the new row
   * @param from base URL that the stored row must have
   * @param unseenSince milliseconds since 1970: no row of that base URL may have been seen at or after it; null: whenever
   * @returns the row that is there afterwards
   */
  replace(row: CoordinatorRow, from: string, unseenSince: number | null): Promise<CoordinatorRow> {
    return this.database.run(async (knex) => {
      // Each statement by itself: the update compares the owner again, and what is read afterwards is what others see.
      await knex('eg_coordinators').insert(columnsOf(row)).onConflict('suffix').ignore();
      if (unseenSince === null || !(await wasSeen(knex, from, unseenSince))) {
        await knex('eg_coordinators').where({ suffix: row.suffix, base_url: from }).update(columnsOf(row));
      }
      const stored: Row | undefined = await knex('eg_coordinators').where('suffix', row.suffix).first();
      return stored === undefined ? row : fromRow(stored);
    });
  }

  touch(suffixes: readonly string[], lastSeen: number): Promise<void> {
    return this.database.run(async (knex) => {
      if (suffixes.length === 0) return;
      await knex('eg_coordinators')
        .whereIn('suffix', [...suffixes].sort())
        .where('last_seen', '<', lastSeen)
        .update({ last_seen: lastSeen });
    });
  }

  deleteBefore(before: number, fence: Fence | null = null): Promise<number> {
    return deleteInBatches(this.database, 'eg_coordinators', 'last_seen', before, fence);
  }

  /** A cluster that claims one suffix after the other displaces its own rows only. */
  async #deleteOldest(knex: Knex, { suffix, cluster }: CoordinatorRow): Promise<void> {
    const old = (await knex('eg_coordinators')
      .where('cluster', cluster)
      .whereNot('suffix', suffix)
      .orderBy([{ column: 'last_seen', order: 'desc' }, { column: 'suffix' }])
      .offset(MAX_ROWS_PER_CLUSTER - 1)
      .limit(MAX_ROWS_PER_CLUSTER)
      .select('suffix')) as Pick<Row, 'suffix'>[];
    if (old.length === 0) return;
    const suffixes = old.map((row) => row.suffix);
    await knex('eg_coordinators').where('cluster', cluster).whereIn('suffix', suffixes).delete();
  }
}

async function wasSeen(knex: Knex, proxyTo: string, since: number): Promise<boolean> {
  const row = await knex('eg_coordinators').where('base_url', proxyTo).where('last_seen', '>=', since).first('suffix');
  return row !== undefined;
}
