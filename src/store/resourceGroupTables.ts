import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import type { GlobalProperty, GlobalPropertyRow } from '../model/globalProperty.ts';
import { columnOf, groupColumns, type SelectorTexts, selectorTextNames } from '../model/groupsFile/groupFields.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../model/resourceGroup.ts';
import type { NewSelector, SelectorColumns, SelectorRow } from '../model/selector.ts';
import type { Database } from './database.ts';
import { DatabaseFailure } from './failures.ts';
import type { Dialect } from './store.ts';

export interface ResourceGroupTables {
  readonly database: Pick<Database, 'dialect' | 'transaction'>;
  /** Its name for messages; null for the gateway's own. */
  readonly name: string | null;
}

/** A change of one row, or of equal rows. */
export interface WriteOf<Kind, Row> {
  readonly kind: Kind;
  /** The row as it was, read in the same transaction; null: it was not there. */
  readonly before: Row | null;
  /** The row as it is stored now; null: it is deleted. */
  readonly row: Row | null;
  /** What the engine would reject in the meantime, in sentences for users. */
  readonly warnings: readonly string[];
}

type Stored<Kind, Row> = WriteOf<Kind, Row> & { readonly row: Row };

const writeOf = <Kind, Before, Row>(kind: Kind, before: Before, row: Row, warnings: readonly string[] = []) => ({
  ...{ kind, before, row, warnings },
});

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
function idEquals(trx: Knex, column: string, id: number, dialect: Dialect): Knex.Raw {
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
    /** Rejects with EG_CONFLICT where it exists. */
    create: (row: GlobalProperty) =>
      inTransaction(tables, async (trx) => {
        const { name } = row;
        if ((await read(trx, name)).length > 0) {
          throw new GatewayError('EG_CONFLICT', `The property ${name} exists; update it instead.`, { field: 'name' });
        }
        await trx(PROPERTIES).insert(row);
        return writeOf('GlobalProperty' as const, null, row);
      }),
    /** Rejects with EG_NOT_FOUND. */
    update: (row: GlobalProperty) =>
      inTransaction(tables, async (trx) => {
        const { name, value } = row;
        const [before] = await read(trx, name);
        if (before === undefined) {
          throw new GatewayError('EG_NOT_FOUND', `There is no property ${name}; create it.`, { field: 'name' });
        }
        await trx(PROPERTIES).where({ name }).update({ value });
        return writeOf('GlobalProperty' as const, before, row);
      }),
    /** An unknown name is no error. */
    delete: (name: string) =>
      inTransaction(tables, async (trx) => {
        const [before = null] = await read(trx, name);
        if (before !== null) await trx(PROPERTIES).where({ name }).delete();
        return writeOf('GlobalProperty' as const, before, null);
      }),
  };
}

export const GROUPS = 'resource_groups';
export const ID = 'resource_group_id';

/** Rows of a table with the id of a group. */
const ofGroup = (trx: Knex, table: string, id: number, dialect: Dialect) =>
  trx(table).where(idEquals(trx, ID, id, dialect));

/** A row as drivers give it: big integers as text (pg), booleans as numbers (MySQL, SQLite). */
type RawRow = Readonly<Record<string, unknown>>;

/** Inserts a row. Returns the id that the database assigned. */
async function inserted(query: Knex.QueryBuilder, id: string, dialect: Dialect): Promise<number> {
  const [response] = await (dialect === 'mysql' ? query : query.returning(id));
  return Number(dialect === 'mysql' ? response : response[id]);
}

/** Reads and writes `resource_groups`. */
export function resourceGroups(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  const all = async (trx: Knex): Promise<readonly ResourceGroupRow[]> =>
    ((await trx(GROUPS).select('*').orderBy(ID)) as RawRow[]).map(groupFromRow);
  /** Locks all groups: a change depends on the others. */
  const readLocked = async (trx: Knex, id: number | null) => {
    const rows: RawRow[] = await locked(trx(GROUPS).select('*').orderBy(ID), dialect);
    const groups = rows.map(groupFromRow);
    const before = groups.find((group) => group.resourceGroupId === id) ?? null;
    return { before, others: groups.filter((group) => group !== before) };
  };
  return {
    all: () => inTransaction(tables, all),
    /** Rejects with EG_CONFLICT (name taken under that parent), EG_IMPOSSIBLE (no such parent), EG_MALFORMED (softMemoryLimit). */
    create: (columns: ResourceGroupColumns) =>
      inTransaction(tables, async (trx) => {
        const { others } = await readLocked(trx, null);
        await requirePossible(trx, columns, null, others);
        const resourceGroupId = await inserted(trx(GROUPS).insert(groupToRow(columns)), ID, dialect);
        return written(trx, null, { resourceGroupId, ...columns }, others);
      }),
    /** Overwrites all columns; rejects as `create`, with EG_NOT_FOUND, and with EG_IMPOSSIBLE for a cycle of parents. */
    update: (row: ResourceGroupRow) =>
      inTransaction(tables, async (trx) => {
        const { resourceGroupId: id, ...columns } = row;
        const { before, others } = await readLocked(trx, id);
        if (before === null) {
          throw new GatewayError('EG_NOT_FOUND', `There is no resource group ${id}.`, { field: 'resourceGroupId' });
        }
        await requirePossible(trx, columns, id, others);
        await ofGroup(trx, GROUPS, id, dialect).update(groupToRow(columns));
        return written(trx, before, row, others);
      }),
    /** An unknown id is no error. Rejects with EG_CONFLICT while selectors or other groups refer to it. */
    delete: (id: number) =>
      inTransaction(tables, async (trx) => {
        const { before, others } = await readLocked(trx, id);
        const children = others.filter(({ parent }) => parent === id).map(({ name }) => JSON.stringify(name));
        const [row] = await ofGroup(trx, SELECTORS, id, dialect).count({ count: '*' });
        const count = Number(row?.count ?? 0);
        const users = [
          ...(children.length === 0 ? [] : [`the groups ${children.join(', ')}, whose parent it is`]),
          ...(count === 0 ? [] : [`${count} selector${count === 1 ? '' : 's'}`]),
        ];
        if (users.length > 0) {
          // Foreign keys of the engine's own tables would delete all of these too.
          throw new GatewayError('EG_CONFLICT', `Group ${id} is in use by ${users.join(' and ')}; delete these first.`);
        }
        await ofGroup(trx, GROUPS, id, dialect).delete();
        return writeOf('ResourceGroup' as const, before, null);
      }),
  };
}

async function requirePossible(
  trx: Knex,
  { name, parent, environment, softMemoryLimit }: ResourceGroupColumns,
  id: number | null,
  others: readonly ResourceGroupRow[],
): Promise<void> {
  const impossible = (message: string) => new GatewayError('EG_IMPOSSIBLE', message, { field: 'parent' });
  if (parent !== null && parent === id) throw impossible(`Group ${id} cannot be its own parent.`);
  const parents = new Map(others.map((other) => [other.resourceGroupId, other.parent]));
  if (parent !== null && !parents.has(parent))
    throw impossible(`There is no group ${parent} that could be the parent.`);
  const visited = new Set<number>();
  for (let above = parent; above !== null && !visited.has(above); above = parents.get(above) ?? null) {
    if (above === id) throw impossible(`Group ${id} would be among its own parents.`);
    visited.add(above);
  }
  const isSame = (other: ResourceGroupRow) =>
    other.name === name && other.parent === parent && other.environment === environment;
  const same = others.find(isSame);
  if (same !== undefined) {
    const message = `Group ${same.resourceGroupId} has that name already, under the same parent and environment.`;
    throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
  }
  if (softMemoryLimit !== null || !(await needsMemoryLimit(trx))) return;
  const message = 'softMemoryLimit is required: a percentage such as 80% or a size such as 5GB.';
  throw new GatewayError('EG_MALFORMED', message, { field: 'softMemoryLimit' });
}

/** True if each group must have a memory limit, as the engine's migrations have not made the column nullable. */
export async function needsMemoryLimit(trx: Knex): Promise<boolean> {
  return (await trx(GROUPS).columnInfo()).soft_memory_limit?.nullable !== true;
}

/**
 * Adds what the engine would reject as long as it is so (its AbstractResourceConfigurationManager): a later call can
 * fix it, so it is reported as a warning, not rejected.
 */
async function written(
  trx: Knex,
  before: ResourceGroupRow | null,
  row: ResourceGroupRow,
  others: readonly ResourceGroupRow[],
): Promise<Stored<'ResourceGroup', ResourceGroupRow>> {
  const parent = others.find((other) => other.resourceGroupId === row.parent);
  const children = others.filter((other) => other.parent === row.resourceGroupId);
  const siblings = others.filter((other) => other.parent === row.parent);
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
  const present = warnings.filter((warning) => warning !== false);
  return writeOf('ResourceGroup', before, row, present);
}

/** What the engine would reject in the weights of the groups below one; false: nothing. */
function weightWarning(
  { name, schedulingPolicy }: ResourceGroupRow,
  children: readonly ResourceGroupRow[],
): string | false {
  const policy = schedulingPolicy?.toLowerCase() ?? '';
  const weighted = children.filter(({ schedulingWeight }) => schedulingWeight !== null).length;
  if (weighted === 0) return false;
  if (policy.startsWith('weighted') && weighted < children.length) {
    return `Some groups below ${name} have a schedulingWeight and some have none: the engine loads no groups until all or none have.`;
  }
  if (policy !== 'fair' && policy !== 'query_priority') return false;
  return `Groups below ${name} have a schedulingWeight, which its schedulingPolicy ${policy} does not allow: the engine loads no groups.`;
}

const columnNames = ['name', ...Object.keys(groupColumns)].map(
  (field) => [field as keyof ResourceGroupColumns, columnOf(field)] as const,
);

export function groupToRow(group: ResourceGroupColumns): Record<string, unknown> {
  return Object.fromEntries(columnNames.map(([field, column]) => [column, group[field]]));
}

export function groupFromRow(row: RawRow): ResourceGroupRow {
  const values = columnNames.map(([field, column]) => {
    const value = row[column] ?? null;
    return [field, value === null ? null : field === 'jmxExport' ? Boolean(value) : value];
  });
  const group = Object.fromEntries(values) as ResourceGroupColumns;
  const parent = group.parent === null ? null : Number(group.parent);
  return { resourceGroupId: Number(row[ID]), ...group, parent };
}

export const SELECTORS = 'selectors';
const texts = selectorTextNames.map((field) => [field, columnOf(field)] as const);

/** Reads and writes `selectors`. */
export function selectors(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  const columnsOf = async (trx: Knex) => new Set(Object.keys(await trx(SELECTORS).columnInfo()));

  /** The columns of the table, if it can have the selector. @param prefix of fields in messages */
  const columnsFor = async (trx: Knex, selector: SelectorColumns, prefix: string): Promise<ReadonlySet<string>> => {
    const columns = await columnsOf(trx);
    requireSelectorColumns(selector, columns, prefix);
    const { resourceGroupId } = selector;
    const groups = await locked(ofGroup(trx, GROUPS, resourceGroupId, dialect).select(ID), dialect);
    if (groups.length > 0) return columns;
    const field = `${prefix}resourceGroupId`;
    throw new GatewayError('EG_IMPOSSIBLE', `There is no resource group ${resourceGroupId}.`, { field });
  };

  const insert = async (trx: Knex, selector: SelectorColumns, columns: ReadonlySet<string>): Promise<SelectorRow> => {
    const query = trx(SELECTORS).insert(selectorToRow(selector, columns));
    if (columns.has('id')) return { ...selector, id: await inserted(query, 'id', dialect) };
    await query;
    return { ...selector, id: null };
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

  /** Turns every row equal to `current` into `update`; creates `update` where it is missing. */
  const replace = async (
    trx: Knex,
    current: SelectorRow,
    update: SelectorColumns,
    columns: ReadonlySet<string>,
  ): Promise<Stored<'Selector', SelectorRow>> => {
    const equal = equalTo(trx, current, columns);
    const rows: RawRow[] = equal === null ? [] : await locked(trx(SELECTORS).select('*').where(equal), dialect);
    const [first] = rows;
    if (equal === null || first === undefined) {
      return writeOf('Selector', null, await insert(trx, update, columns));
    }
    await trx(SELECTORS).where(equal).update(selectorToRow(update, columns));
    const isOne = rows.length === 1;
    const warnings = isOne ? [] : [`${rows.length} selectors were equal to current; all of them were changed.`];
    const before = selectorFromRow(first);
    return writeOf('Selector', before, { ...update, id: isOne ? before.id : null }, warnings);
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
    create: ({ resourceGroupId: id, ...selector }: NewSelector) =>
      inTransaction(tables, async (trx) => {
        const query = trx(GROUPS).select(ID, 'name').orderBy(ID, 'desc').limit(1);
        const [newest]: RawRow[] = id === null ? await locked(query, dialect) : [];
        if (id === null && newest === undefined) {
          const message = 'There is no resource group that the selector could point to; create one first.';
          throw new GatewayError('EG_CONFLICT', message, { field: 'resourceGroupId' });
        }
        const columns = { ...selector, resourceGroupId: id ?? Number(newest?.[ID]) };
        const row = await insert(trx, columns, await columnsFor(trx, columns, ''));
        const warning = `No resourceGroupId was sent; the selector points to the newest group, ${row.resourceGroupId} (${newest?.name}).`;
        return writeOf('Selector' as const, null, row, newest === undefined ? [] : [warning]);
      }),
    /**
     * Every row equal to `current` becomes `update`; without one, `update` is created.
     * @param prefix of fields of `update` in messages
     */
    update: (current: SelectorRow, update: SelectorColumns, prefix = 'update.') =>
      inTransaction(tables, async (trx) => replace(trx, current, update, await columnsFor(trx, update, prefix))),
    /** Overwrites the first selector of its group, or creates it (docs/compatibility.md#entities). */
    replaceFirst: (selector: SelectorColumns) =>
      inTransaction(tables, async (trx): Promise<Stored<'Selector', SelectorRow>> => {
        const columns = await columnsFor(trx, selector, '');
        const present = ofGroup(trx, SELECTORS, selector.resourceGroupId, dialect).select('*');
        const [first]: RawRow[] = await locked(present.orderBy('priority', 'desc').limit(1), dialect);
        if (first !== undefined) return replace(trx, selectorFromRow(first), selector, columns);
        return writeOf('Selector', null, await insert(trx, selector, columns));
      }),
    /** Deletes every equal row; returns their number. */
    delete: (selector: SelectorRow) =>
      inTransaction(tables, async (trx): Promise<number> => {
        const equal = equalTo(trx, selector, await columnsOf(trx));
        return equal === null ? 0 : trx(SELECTORS).where(equal).delete();
      }),
  };
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
export function requireSelectorColumns(selector: SelectorTexts, columns: ReadonlySet<string>, prefix: string): void {
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
  return {
    ...(Object.fromEntries(texts.map(([field, column]) => [field, row[column] ?? null])) as SelectorTexts),
    resourceGroupId: Number(row[ID]),
    priority: Number(row.priority),
    id: row.id == null ? null : Number(row.id),
  };
}
