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

/** A change of a row; null: nothing changed. */
type RowChange = readonly [name: string | number, before: unknown, after: unknown] | null;

/** @param written the resource that the last change went to; null: to the tables only */
function auditedGroups(
  store: ResourceGroupStore,
  request: FastifyRequest,
  written: () => ResourceReference | null,
): ResourceGroupStore {
  const { groups, selectors, properties } = store;
  const record = (kind: Kind, [name, before, after]: NonNullable<RowChange>) => {
    const object = `${words[kind]} ${name}`;
    const resource = written();
    const subject = resource === null ? { kind, name: String(name) } : { kind: resource.kind, name: resource.name };
    const where = resource === null ? '' : ` of ${resource.kind} ${resource.namespace}/${resource.name}`;
    recordChange(request, { object: object + where, subject, regarding: resource ?? 'gateway', before, after });
  };
  const audited =
    <Args extends unknown[], Result>(
      kind: Kind,
      write: (...args: Args) => Promise<Result>,
      changeOf: (result: Result, ...args: Args) => RowChange,
    ) =>
    async (...args: Args): Promise<Result> => {
      const result = await write(...args);
      const change = changeOf(result, ...args);
      if (change !== null) record(kind, change);
      return result;
    };
  return {
    ...store,
    groups: {
      ...groups,
      create: audited('ResourceGroup', groups.create, ({ row }) => [row.resourceGroupId, null, row]),
      update: audited('ResourceGroup', groups.update, ({ before, row }) => [row.resourceGroupId, before, row]),
      delete: audited('ResourceGroup', groups.delete, (before, id) => (before === null ? null : [id, before, null])),
    },
    selectors: {
      ...selectors,
      create: audited('Selector', selectors.create, ({ row }) => [row.resourceGroupId, null, row]),
      update: audited('Selector', selectors.update, ({ before, row }) => [row.resourceGroupId, before, row]),
      replaceFirst: audited('Selector', selectors.replaceFirst, ({ before, row }) => [
        row.resourceGroupId,
        before,
        row,
      ]),
      delete: audited('Selector', selectors.delete, (rows, selector) =>
        rows === 0 ? null : [selector.resourceGroupId, selector, null],
      ),
    },
    properties: {
      ...properties,
      create: audited('GlobalProperty', properties.create, (_, property) => [property.name, null, property]),
      update: audited('GlobalProperty', properties.update, (before, property) => [property.name, before, property]),
      delete: audited('GlobalProperty', properties.delete, (before, name) =>
        before === null ? null : [name, before, null],
      ),
    },
  };
}
