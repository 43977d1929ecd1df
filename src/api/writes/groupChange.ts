import type { FastifyRequest } from 'fastify';
import type { AppliedGroupWrite, GroupTables } from '../../operator/registry/groupWrites.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { recordChange } from '../auth/audit.ts';
import { isForced } from '../auth/guard.ts';

/** Kinds of rows in words. */
const words = {
  ResourceGroup: 'resource group',
  Selector: 'selector of resource group',
  GlobalProperty: 'global property',
} as const;

/**
 * Changes the resource group tables of a database as a request asks, and records the change in the audit: a change of rows that a
 * resource declares as one of that resource.
 * @param database null: the gateway's own
 */
export async function changeGroups(
  tables: GroupTables,
  request: FastifyRequest,
  database: string | null,
  work: (store: ResourceGroupStore) => Promise<GroupWrite>,
): Promise<GroupWrite> {
  const write = await tables.change(database, work, isForced(request));
  const { kind, before, row: after, resource } = write;
  const name = nameOf(write);
  if (name === null) return write;
  const where = resource === null ? '' : ` of ${resource.kind} ${resource.namespace}/${resource.name}`;
  const subject = resource === null ? { kind, name } : { kind: resource.kind, name: resource.name };
  const object = `${words[kind]} ${name}${where}`;
  recordChange(request, { object, subject, regarding: resource ?? 'gateway', before, after });
  return write;
}

/** Name of the changed row; null: nothing was there. */
function nameOf({ kind, before, row }: AppliedGroupWrite): string | null {
  const written = row ?? before;
  if (written === null) return null;
  return kind === 'GlobalProperty'
    ? (written as { name: string }).name
    : String((written as { resourceGroupId: number }).resourceGroupId);
}
