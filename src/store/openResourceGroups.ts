import { GatewayError } from '../model/errors.ts';
import type { Database } from './database.ts';
import { declaredGroups } from './declaredGroups.ts';
import { globalProperties } from './globalProperties.ts';
import type { ResourceGroupStore } from './resourceGroupStore.ts';
import { resourceGroups } from './resourceGroups.ts';
import { inTransaction, type ResourceGroupTables } from './resourceGroupTables.ts';
import { selectors } from './selectors.ts';

/**
 * The resource groups of a database.
 * @param name its name for messages; null for the gateway's own
 */
export function openResourceGroups(database: Database, name: string | null): ResourceGroupStore {
  return storeOf({ database, name });
}

function storeOf(tables: ResourceGroupTables): ResourceGroupStore {
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
      result = { value: await work(storeOf({ database: inside, name })) };
      throw rollback;
    });
  } catch (error) {
    if (error !== rollback) throw error;
  }
  return (result as unknown as { readonly value: T }).value;
}
