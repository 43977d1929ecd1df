import type { Knex } from 'knex';
import { ENGINE_CLUSTER } from '../kinds/engineCluster/spec.ts';
import type { Database } from './database.ts';
import type { BackendRepository, BackendRow, SourceName } from './store.ts';

interface Row {
  readonly name: string;
  readonly routing_group: string | null;
  readonly backend_url: string | null;
  readonly external_url: string | null;
  readonly active: unknown;
}

/** Columns of `gateway_backend` of a row. */
export function backendColumns(row: BackendRow): Record<string, unknown> {
  return {
    name: row.name,
    routing_group: row.routingGroup,
    backend_url: row.proxyTo,
    external_url: row.externalUrl,
    active: row.active,
  };
}

/**
 * A row as stored, nulls of hand-written rows read as the reference's defaults
 * (docs/compatibility.md#cluster-registry).
 */
export function backendRow(row: Row): BackendRow {
  const proxyTo = row.backend_url ?? '';
  return {
    name: row.name,
    routingGroup: row.routing_group ?? 'adhoc',
    proxyTo,
    externalUrl: row.external_url ?? proxyTo,
    active: Boolean(row.active),
  };
}

/** `gateway_backend` (docs/compatibility.md#tables). */
export class KnexBackendRepository implements BackendRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  all(source?: SourceName): Promise<readonly (BackendRow & { readonly managed: boolean })[]> {
    // A row whose resource is deleted between two statements would look like one that no resource ever stood for.
    return this.database.snapshot(async (trx) => {
      const rows: Row[] = await trx('gateway_backend').orderBy('name');
      const managed = trx('eg_resources').where('kind', ENGINE_CLUSTER).whereNull('deleted_at').select('registry_name');
      const resources: { registry_name: string }[] = await (source === undefined ? managed : managed.where({ source }));
      const names = new Set(resources.map((row) => row.registry_name));
      return rows.map((row) => ({ ...backendRow(row), managed: names.has(row.name) }));
    });
  }

  rows(): Promise<readonly BackendRow[]> {
    return this.database.run(async (knex) => {
      const rows: Row[] = await knex('gateway_backend');
      return rows.map(backendRow);
    });
  }

  async setActive(name: string, active: boolean): Promise<boolean> {
    return await this.database.run(async (knex) => {
      // A row that is already as asked for is not counted as changed by MySQL.
      const rows: unknown[] = await unmanagedRow(knex, name).select('name');
      if (rows.length > 0) await unmanagedRow(knex, name).update({ active });
      return rows.length > 0;
    });
  }

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
