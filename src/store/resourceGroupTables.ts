import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import type { GlobalProperty, GlobalPropertyRow } from '../model/globalProperty.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../model/resourceGroup.ts';
import {
  type NewSelector,
  type SelectorColumns,
  type SelectorRow,
  type SelectorText,
  selectorTextColumns,
} from '../model/selector.ts';
import type { Database } from './database.ts';
import { DatabaseFailure } from './failures.ts';
import type { Changed, Written } from './resourceGroupStore.ts';
import type { Dialect } from './store.ts';

export interface ResourceGroupTables {
  readonly database: Pick<Database, 'dialect' | 'transaction'>;
  /** Its name for messages; null for the gateway's own. */
  readonly name: string | null;
}

/**
 * Runs the body in one transaction. What the database states is turned into errors of ours: its words, which hold
 * values, never leave the store but as `cause`.
 */
export async function inTransaction<T>(
  { database, name }: ResourceGroupTables,
  body: (trx: Knex.Transaction) => Promise<T>,
): Promise<T> {
  try {
    return await database.transaction(body);
  } catch (error) {
    throw asGatewayError(error, name);
  }
}

/** Locks the rows that a select reads until the transaction ends; SQLite locks as a whole. */
export function locked<Query extends Knex.QueryBuilder>(query: Query, dialect: Dialect): Query {
  return dialect === 'sqlite' ? query : (query.forUpdate() as Query);
}

/** Compares an id column with any whole number; PostgreSQL's `serial` would reject one beyond 32 bits. */
export function idEquals(trx: Knex, column: string, id: number, dialect: Dialect): Knex.Raw {
  return trx.raw(dialect === 'postgresql' ? '?? = cast(? as bigint)' : '?? = ?', [column, id]);
}

/** Codes of the three drivers (DatabaseFailure.code): SQLSTATE, MySQL's error name, SQLite's extended number. */
const codes = {
  duplicate: new Set(['23505', 'ER_DUP_ENTRY', 'SQLITE_2067', 'SQLITE_1555']),
  reference: new Set(['23503', 'ER_NO_REFERENCED_ROW_2', 'ER_ROW_IS_REFERENCED_2', 'SQLITE_787']),
  characters: new Set(['22P05', '22021', 'ER_TRUNCATED_WRONG_VALUE_FOR_FIELD']),
  noDatabase: new Set(['3D000', 'ER_BAD_DB_ERROR', 'ER_DBACCESS_DENIED_ERROR']),
  noTable: new Set(['42P01', 'ER_NO_SUCH_TABLE']),
};

function asGatewayError(error: unknown, name: string | null): unknown {
  const failure = error instanceof DatabaseFailure ? error : error instanceof GatewayError ? error.cause : null;
  if (!(failure instanceof DatabaseFailure)) return error;
  const where = name === null ? 'the database' : `the database ${name}`;
  const field = name === null ? {} : { field: 'useSchema' };
  if (codes.duplicate.has(failure.code)) {
    return new GatewayError('EG_CONFLICT', 'There is one of that name already.', { field: 'name', cause: failure });
  }
  if (codes.reference.has(failure.code)) {
    return new GatewayError('EG_CONFLICT', 'Another change of the groups came between; try again.', { cause: failure });
  }
  if (codes.characters.has(failure.code)) {
    const message = `The character set of ${where} lacks a character of the values.`;
    return new GatewayError('EG_IMPOSSIBLE', message, { cause: failure });
  }
  if (codes.noDatabase.has(failure.code) && name !== null) {
    return new GatewayError('EG_NOT_FOUND', `There is no database ${name} that the gateway may use.`, {
      ...field,
      cause: failure,
    });
  }
  if (codes.noTable.has(failure.code) || failure.driverMessage.includes('no such table')) {
    const message = `${where} lacks resource_groups, selectors or resource_groups_global_properties; an engine whose resource groups come from it makes them.`;
    return new GatewayError('EG_NOT_FOUND', message, { ...field, cause: failure });
  }
  return error;
}

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
        const [count] = await trx(SELECTORS)
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
function requireUnused(id: number, children: readonly string[], selectors: number): void {
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
    const message = `There is no group ${parent} that could be the parent.`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'parent' });
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
function nameTaken(id: number): GatewayError {
  const message = `Group ${id} has that name already, under the same parent and environment.`;
  return new GatewayError('EG_CONFLICT', message, { field: 'name' });
}

/** The limit may be null only where the engine's migrations have made its column nullable. */
async function requireMemoryLimit(trx: Knex, { softMemoryLimit }: ResourceGroupColumns): Promise<void> {
  if (softMemoryLimit !== null) return;
  const columns = await trx(GROUPS).columnInfo();
  if (columns.soft_memory_limit?.nullable === true) return;
  const message = 'softMemoryLimit is required: a percentage such as 80% or a size such as 5GB.';
  throw new GatewayError('EG_MALFORMED', message, { field: 'softMemoryLimit' });
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
  const parent = others.find((other) => other.resourceGroupId === row.parent);
  const children = others.filter((other) => other.parent === row.resourceGroupId);
  const siblings = parent === undefined ? [] : others.filter((other) => other.parent === row.parent);
  const env = (environment: string | null) =>
    environment === null ? 'no environment' : `environment ${JSON.stringify(environment)}`;
  const strangers = children.filter((child) => child.environment !== row.environment).map(({ name }) => name);
  const hasCpuLimit = row.softCpuLimit !== null || row.hardCpuLimit !== null;
  const lacksPeriod = hasCpuLimit && (await trx(PROPERTIES).select('name').limit(1)).length === 0;
  const warnings = [
    row.environment === null && 'The group has no environment: an engine reads only groups of its own environment.',
    parent !== undefined &&
      parent.environment !== row.environment &&
      `Its parent has ${env(parent.environment)}, the group ${env(row.environment)}: the engine loads no groups while they differ.`,
    strangers.length > 0 &&
      `Groups below it have another environment (${strangers.join(', ')}): the engine loads no groups while they differ.`,
    lacksPeriod && 'CPU limits need the global property cpu_quota_period: the engine loads no groups until it is set.',
    parent !== undefined && weightWarning(parent, [...siblings, row]),
    weightWarning(row, children),
  ];
  return { row, warnings: warnings.filter((warning) => warning !== false) };
}

/** What the engine would reject in the weights of the groups below one; false: nothing. */
function weightWarning(parent: ResourceGroupRow, children: readonly ResourceGroupRow[]): string | false {
  const policy = parent.schedulingPolicy?.toLowerCase();
  const weighted = children.filter((child) => child.schedulingWeight !== null).length;
  if ((policy === 'weighted' || policy === 'weighted_fair') && weighted > 0 && weighted < children.length) {
    return `Some groups below ${parent.name} have a schedulingWeight and some have none: the engine loads no groups until all or none have.`;
  }
  const isRejected = (policy === 'fair' || policy === 'query_priority') && weighted > 0;
  return (
    isRejected &&
    `Groups below ${parent.name} have a schedulingWeight, which its schedulingPolicy ${policy} does not allow: the engine loads no groups.`
  );
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

export const SELECTORS = 'selectors';
const texts = Object.entries(selectorTextColumns) as [SelectorText, string][];

/** Reads and writes `selectors`. */
export function selectors(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  const columnsOf = async (trx: Knex) => new Set(Object.keys(await trx(SELECTORS).columnInfo()));

  const requireGroup = async (trx: Knex, id: number, field: string): Promise<void> => {
    const query = trx(GROUPS)
      .select(ID)
      .where(idEquals(trx, ID, id, dialect));
    if ((await locked(query, dialect)).length > 0) return;
    throw new GatewayError('EG_IMPOSSIBLE', `There is no resource group ${id}.`, { field });
  };

  const insert = async (trx: Knex, selector: SelectorColumns, columns: ReadonlySet<string>): Promise<SelectorRow> => {
    const query = trx(SELECTORS).insert(selectorToRow(selector, columns));
    if (!columns.has('id')) {
      await query;
      return { ...selector, id: null };
    }
    const [response] = dialect === 'mysql' ? await query : await query.returning('id');
    return { ...selector, id: Number(dialect === 'mysql' ? response : (response as unknown as RawRow).id) };
  };

  /** Condition for rows equal in all columns; null if a wanted value has no column, so that no row can be equal. */
  const equalTo = (trx: Knex, selector: SelectorRow, columns: ReadonlySet<string>): Knex.QueryCallback | null => {
    const missing = texts.some(([field, column]) => selector[field] !== null && !columns.has(column));
    if (missing || (selector.id !== null && !columns.has('id'))) return null;
    return (query) => {
      query.where(idEquals(trx, ID, selector.resourceGroupId, dialect));
      query.where(idEquals(trx, 'priority', selector.priority, dialect));
      if (selector.id !== null) query.where(idEquals(trx, 'id', selector.id, dialect));
      for (const [field, column] of texts) {
        if (columns.has(column)) query.where(trx.raw(sameText[dialect], [column, selector[field]]));
      }
    };
  };

  const created = async (
    trx: Knex,
    selector: SelectorColumns,
    columns: ReadonlySet<string>,
  ): Promise<Changed<SelectorRow>> => ({ row: await insert(trx, selector, columns), warnings: [], before: null });

  /** Turns every row equal to `current` into `update`; creates `update` where it is missing. */
  const replace = async (
    trx: Knex,
    current: SelectorRow,
    update: SelectorColumns,
    columns: ReadonlySet<string>,
  ): Promise<Changed<SelectorRow>> => {
    const equal = equalTo(trx, current, columns);
    const rows: RawRow[] = equal === null ? [] : await locked(trx(SELECTORS).select('*').where(equal), dialect);
    const [first] = rows;
    if (equal === null || first === undefined) return created(trx, update, columns);
    await trx(SELECTORS).where(equal).update(selectorToRow(update, columns));
    const id = rows.length === 1 && rows[0]?.id != null ? Number(rows[0].id) : null;
    const warnings =
      rows.length === 1 ? [] : [`${rows.length} selectors were equal to current; all of them were changed.`];
    return { row: { ...update, id }, warnings, before: selectorFromRow(first) };
  };

  return {
    /** All selectors, those of one group where an id is given, highest priority first. */
    all: (resourceGroupId: number | null) =>
      inTransaction(tables, async (trx): Promise<readonly SelectorRow[]> => {
        const query = trx(SELECTORS).select('*').orderBy('priority', 'desc').orderBy(ID);
        if (resourceGroupId !== null) query.where(idEquals(trx, ID, resourceGroupId, dialect));
        return ((await query) as RawRow[]).map(selectorFromRow);
      }),
    /** Rejects with EG_CONFLICT where there is no group at all, EG_IMPOSSIBLE for an unknown one or a column that the table does not have. */
    create: (selector: NewSelector) =>
      inTransaction(tables, async (trx): Promise<Written<SelectorRow>> => {
        const columns = await columnsOf(trx);
        requireSelectorColumns(selector, columns, '');
        const { resourceGroupId: groupId } = selector;
        if (groupId !== null) {
          await requireGroup(trx, groupId, 'resourceGroupId');
          return { row: await insert(trx, { ...selector, resourceGroupId: groupId }, columns), warnings: [] };
        }
        const newest = await locked(trx(GROUPS).select(ID, 'name').orderBy(ID, 'desc').limit(1), dialect);
        const group: RawRow | undefined = newest[0];
        if (group === undefined) {
          const message = 'There is no resource group that the selector could point to; create one first.';
          throw new GatewayError('EG_CONFLICT', message, { field: 'resourceGroupId' });
        }
        const resourceGroupId = Number(group[ID]);
        const row = await insert(trx, { ...selector, resourceGroupId }, columns);
        return { row, warnings: [newestGroupWarning(resourceGroupId, String(group.name))] };
      }),
    /** Every row equal to `current` becomes `update`; without one, `update` is created. */
    update: (current: SelectorRow, update: SelectorColumns) =>
      inTransaction(tables, async (trx) => {
        const columns = await columnsOf(trx);
        requireSelectorColumns(update, columns, 'update.');
        await requireGroup(trx, update.resourceGroupId, 'update.resourceGroupId');
        return replace(trx, current, update, columns);
      }),
    /** Overwrites the first selector of its group, or creates it (docs/compatibility.md#entities). */
    replaceFirst: (selector: SelectorColumns) =>
      inTransaction(tables, async (trx) => {
        const columns = await columnsOf(trx);
        requireSelectorColumns(selector, columns, '');
        await requireGroup(trx, selector.resourceGroupId, 'resourceGroupId');
        const ofGroup = trx(SELECTORS)
          .select('*')
          .where(idEquals(trx, ID, selector.resourceGroupId, dialect));
        const [first]: RawRow[] = await locked(ofGroup.orderBy('priority', 'desc').limit(1), dialect);
        if (first !== undefined) return replace(trx, selectorFromRow(first), selector, columns);
        return created(trx, selector, columns);
      }),
    /** Deletes every equal row; returns their number. */
    delete: (selector: SelectorRow) =>
      inTransaction(tables, async (trx): Promise<number> => {
        const equal = equalTo(trx, selector, await columnsOf(trx));
        return equal === null ? 0 : trx(SELECTORS).where(equal).delete();
      }),
  };
}

function newestGroupWarning(id: number, name: string): string {
  return `No resourceGroupId was sent; the selector points to the newest group, ${id} (${name}).`;
}

/**
 * Null equals null, and letter case and trailing spaces count, whatever the column's collation states: MySQL's usual
 * ones would also change the rows of `Bob` for `bob`.
 */
const sameText: Readonly<Record<Dialect, string>> = {
  sqlite: '?? is ?',
  postgresql: '?? is not distinct from cast(? as varchar)',
  mysql: 'cast(convert(?? using utf8mb4) as binary) <=> cast(convert(? using utf8mb4) as binary)',
};

/** Rejects values of columns that the table does not have. @param prefix of the field in the message */
export function requireSelectorColumns(
  selector: Readonly<Record<SelectorText, string | null>>,
  columns: ReadonlySet<string>,
  prefix: string,
): void {
  for (const [field, column] of texts) {
    if (selector[field] === null || columns.has(column)) continue;
    const message = `${prefix}${field} has no place: selectors lacks the column ${column}, which the engine's own migrations add.`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field: prefix + field });
  }
}

export function selectorToRow(selector: SelectorColumns, columns: ReadonlySet<string>): Record<string, unknown> {
  const values = texts.filter(([, column]) => columns.has(column)).map(([field, column]) => [column, selector[field]]);
  return { [ID]: selector.resourceGroupId, priority: selector.priority, ...Object.fromEntries(values) };
}

export function selectorFromRow(row: RawRow): SelectorRow {
  const values = texts.map(([field, column]) => [field, row[column] ?? null]);
  return {
    ...(Object.fromEntries(values) as Record<SelectorText, string | null>),
    resourceGroupId: Number(row[ID]),
    priority: Number(row.priority),
    id: row.id == null ? null : Number(row.id),
  };
}
