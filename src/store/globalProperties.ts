import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import type { GlobalProperty, GlobalPropertyRow } from '../model/globalProperty.ts';
import { inTransaction, locked, type ResourceGroupTables } from './resourceGroupTables.ts';

export const PROPERTIES = 'resource_groups_global_properties';

/** Reads and writes `resource_groups_global_properties`. */
export function globalProperties(tables: ResourceGroupTables) {
  const read = async (trx: Knex, name: string | null): Promise<readonly GlobalPropertyRow[]> => {
    const query = trx(PROPERTIES).select('name', 'value').orderBy('name');
    if (name !== null) query.where({ name });
    const rows: GlobalPropertyRow[] = await locked(query, tables.database.dialect.name);
    // MySQL compares without case and trailing spaces.
    return name === null ? rows : rows.filter((row) => row.name === name);
  };
  return {
    all: () => inTransaction(tables, (trx) => read(trx, null)),
    get: (name: string) => inTransaction(tables, async (trx) => (await read(trx, name))[0] ?? null),
    /** Rejects with EG_CONFLICT where it exists. */
    create: ({ name, value }: GlobalProperty) =>
      inTransaction(tables, async (trx) => {
        if ((await read(trx, name)).length > 0) {
          throw new GatewayError('EG_CONFLICT', `The property ${name} exists; update it instead.`, { field: 'name' });
        }
        await trx(PROPERTIES).insert({ name, value });
      }),
    /** Returns the property as it was. Rejects with EG_NOT_FOUND. */
    update: ({ name, value }: GlobalProperty) =>
      inTransaction(tables, async (trx) => {
        const [before] = await read(trx, name);
        if (before === undefined) {
          throw new GatewayError('EG_NOT_FOUND', `There is no property ${name}; create it.`, { field: 'name' });
        }
        await trx(PROPERTIES).where({ name }).update({ value });
        return before;
      }),
    /** Returns the deleted property; null for an unknown name. */
    delete: (name: string) =>
      inTransaction(tables, async (trx) => {
        const [before = null] = await read(trx, name);
        if (before !== null) await trx(PROPERTIES).where({ name }).delete();
        return before;
      }),
  };
}
