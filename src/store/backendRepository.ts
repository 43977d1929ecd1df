import type { Knex } from 'knex';
import { ENGINE_CLUSTER } from '../kinds/engineCluster/spec.ts';
import type { Database } from './database.ts';
import { backendRows } from './resourceRepository.ts';
import type { BackendRow, SourceName } from './store.ts';

/**
 * `gateway_backend` (docs/compatibility.md#tables). Rows of resources are written by `ResourceRepository`; those that no
 * resource stands for, and none can, by `setActive` and `remove`.
 */
export class BackendRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  /**
   * All rows, by name; `managed`: an EngineCluster resource of that registry name is stored.
   * @param source only resources of this source count; left out, of any
   */
  all(source?: SourceName): Promise<readonly (BackendRow & { readonly managed: boolean })[]> {
    // A row whose resource is deleted between two statements would look like one that no resource ever stood for.
    return this.database.snapshot(async (trx) => {
      const rows = await backendRows(trx('gateway_backend').orderBy('name'));
      const managed = trx('eg_resources').where('kind', ENGINE_CLUSTER).whereNull('deleted_at').select('registry_name');
      const resources: { registry_name: string }[] = await (source === undefined ? managed : managed.where({ source }));
      const names = new Set(resources.map((row) => row.registry_name));
      return rows.map((row) => ({ ...row, managed: names.has(row.name) }));
    });
  }

  rows(): Promise<readonly BackendRow[]> {
    return this.database.run((knex) => backendRows(knex('gateway_backend')));
  }

  /** Switches a row that no live resource stands for; false if it is not found. */
  async setActive(name: string, active: boolean): Promise<boolean> {
    return await this.database.run(async (knex) => {
      // A row that is already as asked for is not counted as changed by MySQL.
      const rows: unknown[] = await unmanagedRow(knex, name).select('name');
      if (rows.length > 0) await unmanagedRow(knex, name).update({ active });
      return rows.length > 0;
    });
  }

  /** Deletes a row that no live resource stands for; false if it is not found. */
  async remove(name: string): Promise<boolean> {
    return await this.database.run(async (knex) => (await unmanagedRow(knex, name).delete()) > 0);
  }

  async unmanaged(): Promise<readonly (BackendRow & { readonly managed: boolean })[]> {
    return (await this.rows()).map((row) => ({ ...row, managed: false })).sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}

/** The row of a name, unless a live resource stands for it. */
function unmanagedRow(knex: Knex, name: string): Knex.QueryBuilder {
  const resources = knex('eg_resources').where({ kind: ENGINE_CLUSTER, registry_name: name }).whereNull('deleted_at');
  return knex('gateway_backend')
    .where({ name })
    .whereNotExists(resources.select(knex.raw('1')));
}
