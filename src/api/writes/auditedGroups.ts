import type { FastifyRequest } from 'fastify';
import type { ResourceReference } from '../../operator/registry/appliedChange.ts';
import type { GroupTables } from '../../operator/registry/declaredGroupWrites.ts';
import type { ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { recordChange } from '../auth/audit.ts';
import { isForced } from '../auth/guard.ts';

/** What changes in these tables, in words. */
const words = {
  ResourceGroup: 'resource group',
  Selector: 'selector of resource group',
  GlobalProperty: 'global property',
} as const;
type Kind = keyof typeof words;

/**
 * Runs `work` with the resource group tables of a database as a request changes them: every change that succeeds is in the
 * audit, one of what a resource declares as a change of that resource.
 * @param database null: the gateway's own
 */
export async function withAuditedGroups<T>(
  tables: GroupTables,
  request: FastifyRequest,
  database: string | null,
  work: (store: ResourceGroupStore) => Promise<T>,
): Promise<T> {
  let resource: ResourceReference | null = null;
  const context = {
    force: isForced(request),
    onWrite: (written: ResourceReference) => {
      resource = written;
    },
  };
  return await tables.use(database, (store) => work(auditedGroups(store, request, () => resource)), context);
}

/** @param written the resource that the last change went to; null: to the tables alone */
function auditedGroups(
  store: ResourceGroupStore,
  request: FastifyRequest,
  written: () => ResourceReference | null,
): ResourceGroupStore {
  const { groups, selectors, properties, declared } = store;
  const recorded = <T>(result: T, kind: Kind, name: string | number, before: unknown, after: unknown): T => {
    const object = `${words[kind]} ${name}`;
    const resource = written();
    const change =
      resource === null
        ? { object, subject: { kind, name: String(name) }, regarding: 'gateway' as const }
        : {
            object: `${object} of ${resource.kind} ${resource.namespace}/${resource.name}`,
            subject: { kind: resource.kind, name: resource.name },
            regarding: resource,
          };
    recordChange(request, { ...change, before, after });
    return result;
  };
  return {
    declared,
    groups: {
      all: () => groups.all(),
      get: (id) => groups.get(id),
      create: async (columns) => {
        const written = await groups.create(columns);
        return recorded(written, 'ResourceGroup', written.row.resourceGroupId, null, written.row);
      },
      update: async (row) => {
        const written = await groups.update(row);
        return recorded(written, 'ResourceGroup', row.resourceGroupId, written.before, written.row);
      },
      delete: async (id) => {
        const before = await groups.delete(id);
        return before === null ? null : recorded(before, 'ResourceGroup', id, before, null);
      },
    },
    selectors: {
      all: (id) => selectors.all(id),
      create: async (selector) => {
        const written = await selectors.create(selector);
        return recorded(written, 'Selector', written.row.resourceGroupId, null, written.row);
      },
      update: async (current, update) => {
        const written = await selectors.update(current, update);
        return recorded(written, 'Selector', written.row.resourceGroupId, written.before, written.row);
      },
      replaceFirst: async (selector) => {
        const written = await selectors.replaceFirst(selector);
        return recorded(written, 'Selector', selector.resourceGroupId, written.before, written.row);
      },
      delete: async (selector) => {
        const rows = await selectors.delete(selector);
        return rows === 0 ? rows : recorded(rows, 'Selector', selector.resourceGroupId, selector, null);
      },
    },
    properties: {
      all: () => properties.all(),
      get: (name) => properties.get(name),
      create: async (property) => {
        await properties.create(property);
        recorded(null, 'GlobalProperty', property.name, null, property);
      },
      update: async (property) => {
        const before = await properties.update(property);
        return recorded(before, 'GlobalProperty', property.name, before, property);
      },
      delete: async (name) => {
        const before = await properties.delete(name);
        return before === null ? null : recorded(before, 'GlobalProperty', name, before, null);
      },
    },
  };
}
