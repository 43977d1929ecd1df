import type { Database } from './database.ts';
import { deleteInBatches } from './deletion.ts';
import type { CoordinatorRepository, CoordinatorRow, Fence } from './store.ts';

interface Row {
  readonly suffix: string;
  readonly cluster: string;
  readonly base_url: string;
  readonly last_seen: number;
}

const fromRow = (row: Row): CoordinatorRow => ({
  suffix: row.suffix,
  cluster: row.cluster,
  baseUrl: row.base_url,
  lastSeen: row.last_seen,
});

/** `eg_coordinators` (design.md, fixed point 7). */
export class KnexCoordinatorRepository implements CoordinatorRepository {
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

  learn(row: CoordinatorRow): Promise<CoordinatorRow> {
    return this.database.run(async (knex) => {
      const columns = { suffix: row.suffix, cluster: row.cluster, base_url: row.baseUrl, last_seen: row.lastSeen };
      await knex('eg_coordinators').insert(columns).onConflict('suffix').ignore();
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
}
