import type { FastifyRequest } from 'fastify';
import type { ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { recordChange } from '../auth/audit.ts';

/** The resource group tables as a request changes them: every change that succeeds is in the audit. */
export function auditedGroups(store: ResourceGroupStore, request: FastifyRequest): ResourceGroupStore {
  const { groups, selectors, properties } = store;
  const recorded = <T>(result: T, object: string, before: unknown, after: unknown): T => {
    recordChange(request, { object, regarding: 'gateway', before, after });
    return result;
  };
  return {
    groups: {
      all: () => groups.all(),
      get: (id) => groups.get(id),
      create: async (columns) => {
        const written = await groups.create(columns);
        return recorded(written, `resource group ${written.row.resourceGroupId}`, null, written.row);
      },
      update: async (row) => {
        const written = await groups.update(row);
        return recorded(written, `resource group ${row.resourceGroupId}`, written.before, written.row);
      },
      delete: async (id) => {
        const before = await groups.delete(id);
        return before === null ? null : recorded(before, `resource group ${id}`, before, null);
      },
    },
    selectors: {
      all: (id) => selectors.all(id),
      create: async (selector) => {
        const written = await selectors.create(selector);
        return recorded(written, `selector of resource group ${written.row.resourceGroupId}`, null, written.row);
      },
      update: async (current, update) => {
        const written = await selectors.update(current, update);
        return recorded(
          written,
          `selector of resource group ${written.row.resourceGroupId}`,
          written.before,
          written.row,
        );
      },
      replaceFirst: async (selector) => {
        const written = await selectors.replaceFirst(selector);
        return recorded(written, `selector of resource group ${selector.resourceGroupId}`, written.before, written.row);
      },
      delete: async (selector) => {
        const rows = await selectors.delete(selector);
        return rows === 0
          ? rows
          : recorded(rows, `selector of resource group ${selector.resourceGroupId}`, selector, null);
      },
    },
    properties: {
      all: () => properties.all(),
      get: (name) => properties.get(name),
      create: async (property) => {
        await properties.create(property);
        recorded(null, `global property ${property.name}`, null, property);
      },
      update: async (property) => {
        const before = await properties.update(property);
        return recorded(before, `global property ${property.name}`, before, property);
      },
      delete: async (name) => {
        const before = await properties.delete(name);
        return before === null ? null : recorded(before, `global property ${name}`, before, null);
      },
    },
  };
}
