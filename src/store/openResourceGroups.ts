import type { Database } from './database.ts';
import { declaredGroups } from './declaredGroups.ts';
import { globalProperties } from './globalProperties.ts';
import type { ResourceGroupStore } from './resourceGroupStore.ts';
import { resourceGroups } from './resourceGroups.ts';
import { selectors } from './selectors.ts';

/**
 * The resource groups of a database.
 * @param name its name for messages; null for the gateway's own
 */
export function openResourceGroups(database: Database, name: string | null): ResourceGroupStore {
  const tables = { database, name };
  return {
    groups: resourceGroups(tables),
    selectors: selectors(tables),
    properties: globalProperties(tables),
    declared: declaredGroups(tables),
  };
}
