import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../model/resourceGroup.ts';
import { PROPERTIES } from './globalProperties.ts';
import type { Changed, Written } from './resourceGroupStore.ts';
import { idEquals, inTransaction, locked, type ResourceGroupTables } from './resourceGroupTables.ts';

export const GROUPS = 'resource_groups';
export const ID = 'resource_group_id';

/** A row as drivers give it: big integers as text (pg), booleans as numbers (MySQL, SQLite). */
type RawRow = Readonly<Record<string, unknown>>;

/** Reads and writes `resource_groups`. */
export function resourceGroups(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  /** All groups, locked: whether a change fits depends on the others. */
  const lockedGroups = async (trx: Knex): Promise<readonly ResourceGroupRow[]> => {
    const rows: RawRow[] = await locked(trx(GROUPS).select('*').orderBy(ID), dialect);
    return rows.map(groupFromRow);
  };
  return {
    all: (): Promise<readonly ResourceGroupRow[]> =>
      inTransaction(tables, async (trx) => ((await trx(GROUPS).select('*').orderBy(ID)) as RawRow[]).map(groupFromRow)),
    get: (id: number) =>
      inTransaction(tables, async (trx) => {
        const row: RawRow | undefined = await trx(GROUPS)
          .where(idEquals(trx, ID, id, dialect))
          .first();
        return row === undefined ? null : groupFromRow(row);
      }),
    /** Rejects with EG_CONFLICT (name taken under that parent), EG_IMPOSSIBLE (no such parent), EG_MALFORMED (softMemoryLimit). */
    create: (columns: ResourceGroupColumns) =>
      inTransaction(tables, async (trx) => {
        const others = await lockedGroups(trx);
        rejectWhatCannotBe(columns, null, others);
        await requireMemoryLimit(trx, columns);
        const insert = trx(GROUPS).insert(groupToRow(columns));
        const [response] = dialect === 'mysql' ? await insert : await insert.returning(ID);
        const resourceGroupId = Number(dialect === 'mysql' ? response : (response as unknown as RawRow)[ID]);
        return written(trx, { resourceGroupId, ...columns }, others);
      }),
    /** Overwrites all columns; rejects as `create`, with EG_NOT_FOUND, and with EG_IMPOSSIBLE for a cycle of parents. */
    update: (row: ResourceGroupRow) =>
      inTransaction(tables, async (trx): Promise<Changed<ResourceGroupRow>> => {
        const all = await lockedGroups(trx);
        const { resourceGroupId, ...columns } = row;
        const before = all.find((group) => group.resourceGroupId === resourceGroupId);
        if (before === undefined) throw unknownGroup(resourceGroupId);
        const others = all.filter((group) => group !== before);
        rejectWhatCannotBe(columns, resourceGroupId, others);
        await requireMemoryLimit(trx, columns);
        await trx(GROUPS)
          .where(idEquals(trx, ID, resourceGroupId, dialect))
          .update(groupToRow(columns));
        return { ...(await written(trx, row, others)), before };
      }),
    /** Returns the deleted group; null for an unknown id. Rejects with EG_CONFLICT while selectors or other groups refer to it. */
    delete: (id: number) =>
      inTransaction(tables, async (trx) => {
        const all = await lockedGroups(trx);
        const before = all.find((group) => group.resourceGroupId === id);
        if (before === undefined) return null;
        const children = all.filter((group) => group.parent === id).map(({ name }) => name);
        const [count] = await trx('selectors')
          .where(idEquals(trx, ID, id, dialect))
          .count({ count: '*' });
        // Foreign keys of the engine's own tables would delete all of these too.
        requireUnused(id, children, Number(count?.count ?? 0));
        await trx(GROUPS)
          .where(idEquals(trx, ID, id, dialect))
          .delete();
        return before;
      }),
  };
}

/**
 * Rejects to delete a group that others need.
 * @param children names of the groups below it
 * @param selectors number of those that lead to it
 * @throws GatewayError EG_CONFLICT
 */
export function requireUnused(id: number, children: readonly string[], selectors: number): void {
  if (children.length === 0 && selectors === 0) return;
  const names = children.map((name) => JSON.stringify(name)).join(', ');
  const users = [
    ...(children.length === 0 ? [] : [`the groups ${names}, whose parent it is`]),
    ...(selectors === 0 ? [] : [`${selectors} selector${selectors === 1 ? '' : 's'}`]),
  ];
  throw new GatewayError('EG_CONFLICT', `Group ${id} is in use by ${users.join(' and ')}; delete these first.`);
}

function unknownGroup(id: number): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `There is no resource group ${id}.`, { field: 'resourceGroupId' });
}

function rejectWhatCannotBe(group: ResourceGroupColumns, id: number | null, others: readonly ResourceGroupRow[]): void {
  const { name, parent, environment } = group;
  if (parent !== null && parent === id) {
    throw new GatewayError('EG_IMPOSSIBLE', `Group ${id} cannot be its own parent.`, { field: 'parent' });
  }
  const byId = new Map(others.map((other) => [other.resourceGroupId, other]));
  if (parent !== null && !byId.has(parent)) {
    throw new GatewayError('EG_IMPOSSIBLE', `There is no group ${parent} that could be the parent.`, {
      field: 'parent',
    });
  }
  const visited = new Set<number>();
  for (let above = parent; above !== null && !visited.has(above); above = byId.get(above)?.parent ?? null) {
    if (above === id) {
      throw new GatewayError('EG_IMPOSSIBLE', `Group ${id} would be among its own parents.`, { field: 'parent' });
    }
    visited.add(above);
  }
  const same = others.find(
    (other) => other.name === name && other.parent === parent && other.environment === environment,
  );
  if (same !== undefined) throw nameTaken(same.resourceGroupId);
}

/** Error of a call that would give a group the name of another one. */
export function nameTaken(id: number): GatewayError {
  const message = `Group ${id} has that name already, under the same parent and environment.`;
  return new GatewayError('EG_CONFLICT', message, { field: 'name' });
}

/** The limit may be null only where the engine's migrations have made its column nullable. */
async function requireMemoryLimit(trx: Knex, { softMemoryLimit }: ResourceGroupColumns): Promise<void> {
  if (softMemoryLimit !== null) return;
  const columns = await trx(GROUPS).columnInfo();
  if (columns.soft_memory_limit?.nullable === true) return;
  throw new GatewayError(
    'EG_MALFORMED',
    'softMemoryLimit is required: a percentage such as 80% or a size such as 5GB.',
    {
      field: 'softMemoryLimit',
    },
  );
}

/**
 * Adds what the engine would reject as long as it is so (its AbstractResourceConfigurationManager): a later call can
 * fix it, so it is reported as a warning, not rejected.
 */
async function written(
  trx: Knex,
  row: ResourceGroupRow,
  others: readonly ResourceGroupRow[],
): Promise<Written<ResourceGroupRow>> {
  const warnings: string[] = [];
  const parent = others.find((other) => other.resourceGroupId === row.parent);
  const children = others.filter((other) => other.parent === row.resourceGroupId);
  const env = (environment: string | null) =>
    environment === null ? 'no environment' : `environment ${JSON.stringify(environment)}`;
  if (row.environment === null)
    warnings.push('The group has no environment: an engine reads only groups of its own environment.');
  if (parent !== undefined && parent.environment !== row.environment) {
    warnings.push(
      `Its parent has ${env(parent.environment)}, the group ${env(row.environment)}: the engine loads no groups while they differ.`,
    );
  }
  const strangers = children.filter((child) => child.environment !== row.environment);
  if (strangers.length > 0) {
    warnings.push(
      `Groups below it have another environment (${strangers.map((child) => child.name).join(', ')}): the engine loads no groups while they differ.`,
    );
  }
  if (row.softCpuLimit !== null || row.hardCpuLimit !== null) {
    const [period] = await trx(PROPERTIES).select('name').limit(1);
    if (period === undefined)
      warnings.push(
        'CPU limits need the global property cpu_quota_period: the engine loads no groups until it is set.',
      );
  }
  if (parent !== undefined) {
    const siblings = others.filter((other) => other.parent === row.parent);
    warnings.push(...weightWarnings(parent, [...siblings, row]));
  }
  warnings.push(...weightWarnings(row, children));
  return { row, warnings };
}

function weightWarnings(parent: ResourceGroupRow, children: readonly ResourceGroupRow[]): readonly string[] {
  const policy = parent.schedulingPolicy?.toLowerCase();
  const weighted = children.filter((child) => child.schedulingWeight !== null).length;
  if ((policy === 'weighted' || policy === 'weighted_fair') && weighted > 0 && weighted < children.length) {
    return [
      `Some groups below ${parent.name} have a schedulingWeight and some have none: the engine loads no groups until all or none have.`,
    ];
  }
  if ((policy === 'fair' || policy === 'query_priority') && weighted > 0) {
    return [
      `Groups below ${parent.name} have a schedulingWeight, which its schedulingPolicy ${policy} does not allow: the engine loads no groups.`,
    ];
  }
  return [];
}

/** Columns of the fields of a group. */
const columnNames: Readonly<Record<keyof ResourceGroupColumns, string>> = {
  name: 'name',
  softMemoryLimit: 'soft_memory_limit',
  maxQueued: 'max_queued',
  softConcurrencyLimit: 'soft_concurrency_limit',
  hardConcurrencyLimit: 'hard_concurrency_limit',
  schedulingPolicy: 'scheduling_policy',
  schedulingWeight: 'scheduling_weight',
  jmxExport: 'jmx_export',
  softCpuLimit: 'soft_cpu_limit',
  hardCpuLimit: 'hard_cpu_limit',
  parent: 'parent',
  environment: 'environment',
};
const fields = Object.entries(columnNames) as [keyof ResourceGroupColumns, string][];
const numbers = new Set(['maxQueued', 'softConcurrencyLimit', 'hardConcurrencyLimit', 'schedulingWeight', 'parent']);

export function groupToRow(group: ResourceGroupColumns): Record<string, unknown> {
  return Object.fromEntries(fields.map(([field, column]) => [column, group[field]]));
}

export function groupFromRow(row: RawRow): ResourceGroupRow {
  const values = fields.map(([field, column]) => {
    const value = row[column] ?? null;
    if (value === null) return [field, null];
    return [field, field === 'jmxExport' ? Boolean(value) : numbers.has(field) ? Number(value) : value];
  });
  return { resourceGroupId: Number(row[ID]), ...(Object.fromEntries(values) as ResourceGroupColumns) };
}
