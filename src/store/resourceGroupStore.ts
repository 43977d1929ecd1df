import { GatewayError } from '../model/errors.ts';
import type { GlobalPropertyRow } from '../model/globalProperty.ts';
import type { ResourceGroupRow } from '../model/resourceGroup.ts';
import type { SelectorRow } from '../model/selector.ts';
import { declaredGroups } from './declaredGroups.ts';
import { globalProperties } from './globalProperties.ts';
import { resourceGroups } from './resourceGroups.ts';
import { inTransaction, type ResourceGroupTables } from './resourceGroupTables.ts';
import { selectors } from './selectors.ts';

/** A row as it is stored now, and what the engine would reject in the meantime (sentences for users). */
export interface Written<Row> {
  readonly row: Row;
  readonly warnings: readonly string[];
}

/** As `Written`, with the row as it was before, read in the same transaction; null: it was not there. */
export interface Changed<Row> extends Written<Row> {
  readonly before: Row | null;
}

/** A change of one row, or of equal rows. `row` null: deleted; both null: nothing was there. */
export type GroupWrite = (
  | { readonly kind: 'ResourceGroup'; readonly before: ResourceGroupRow | null; readonly row: ResourceGroupRow | null }
  | { readonly kind: 'Selector'; readonly before: SelectorRow | null; readonly row: SelectorRow | null }
  | {
      readonly kind: 'GlobalProperty';
      readonly before: GlobalPropertyRow | null;
      readonly row: GlobalPropertyRow | null;
    }
) & { readonly warnings: readonly string[] };

/**
 * The tables that engines' database resource group manager reads, in one database. Each call is one transaction. Every
 * method rejects with EG_DATABASE_UNAVAILABLE when the database is unavailable, EG_NOT_FOUND when it or its tables do not exist.
 */
export interface ResourceGroupStore {
  readonly groups: ReturnType<typeof resourceGroups>;
  readonly selectors: ReturnType<typeof selectors>;
  readonly properties: ReturnType<typeof globalProperties>;
  readonly declared: ReturnType<typeof declaredGroups>;
  /** Runs work and rolls its changes back. Rejects as the work does. */
  preview<T>(work: (store: ResourceGroupStore) => Promise<T>): Promise<T>;
}

/**
 * The resource groups of a database.
 * @param name its name for messages; null for the gateway's own
 */
export function openResourceGroups(database: ResourceGroupTables['database'], name: string | null): ResourceGroupStore {
  const tables = { database, name };
  return {
    groups: resourceGroups(tables),
    selectors: selectors(tables),
    properties: globalProperties(tables),
    declared: declaredGroups(tables),
    preview: (work) => preview(tables, work),
  };
}

async function preview<T>(
  { database, name }: ResourceGroupTables,
  work: (store: ResourceGroupStore) => Promise<T>,
): Promise<T> {
  const rollback = new GatewayError('EG_CONFLICT', 'a preview is rolled back');
  let result: { readonly value: T } | null = null;
  try {
    await inTransaction({ database, name }, async (trx) => {
      const inside = {
        dialect: database.dialect,
        transaction: <R>(body: (own: typeof trx) => Promise<R>) => body(trx),
      };
      result = { value: await work(openResourceGroups(inside, name)) };
      throw rollback;
    });
  } catch (error) {
    if (error !== rollback) throw error;
  }
  return (result as unknown as { readonly value: T }).value;
}
