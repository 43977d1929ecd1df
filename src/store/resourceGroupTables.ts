import type { Knex } from 'knex';
import { type ErrorCode, GatewayError } from '../model/errors.ts';
import { declaredChanges, type GroupTarget } from '../model/groupsFile/declaredGroups.ts';
import { columnOf, groupColumns, mapSelectorFields, selectorTextNames } from '../model/groupsFile/groupFields.ts';
import type { GroupRows, StoredTables } from '../model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../model/resourceGroup.ts';
import type { SelectorRow } from '../model/selector.ts';
import { batches, type ColumnNames, toColumns } from './columns.ts';
import type { Database } from './database.ts';
import type { SqlDialect } from './dialect.ts';
import { DatabaseFailure } from './failures.ts';
import { groupPlace, type RowDecision, storedRow } from './resourceGroupChanges.ts';

const GROUPS = 'resource_groups';
const SELECTORS = 'selectors';
const PROPERTIES = 'resource_groups_global_properties';
const ID = 'resource_group_id';
/** Rows of one statement. */
const BATCH = 500;
const NAMES_ONCE =
  'the table resource_groups takes each name of a group once, also below different parents: give groups of the same name different ones, or drop the unique key of the column name, which engines do not need';
/** Thrown to end a transaction that is only tried. */
const TRIED = new GatewayError('EG_CONFLICT', 'the transaction is rolled back');

/**
 * The tables that engines' database resource group manager reads, in one database. Each call is one transaction. Every
 * method rejects with EG_DATABASE_UNAVAILABLE when the database is unavailable, EG_NOT_FOUND when it or its tables do not exist.
 */
export type ResourceGroupStore = ReturnType<typeof openResourceGroups>;

/**
 * The resource groups of a database.
 * @param name its name for messages; null for the gateway's own
 */
export function openResourceGroups(database: Database, name: string | null) {
  const { dialect } = database;
  const run = <T>(work: (trx: Knex) => Promise<T>) => inTransaction(database, name, work);
  const read = (): Promise<StoredTables> => run((trx) => readTables(trx, dialect, false));
  const change = async <D extends { readonly rows: GroupRows }>(trx: Knex, decide: (present: StoredTables) => D) => {
    const present = await readTables(trx, dialect, dialect.name !== 'sqlite');
    const decided = decide(present);
    if (decided.rows !== present) await writeRows(trx, present, decided.rows);
    return { isWritten: decided.rows !== present, decided };
  };
  return {
    /** The rows of one table: groups by their ids, selectors with the highest priority first. */
    list: <T extends keyof GroupRows>(table: T): Promise<GroupRows[T]> => run((trx) => readers[table](trx, false)),
    /** The rows of all tables. */
    read,
    /** Makes a change, unless its rows are the present ones. Returns it with the row as it is stored. Rejects as the decision does. */
    write: <D extends ReturnType<RowDecision>>(decide: (present: StoredTables) => D) =>
      run(async (trx): Promise<D> => {
        const { isWritten, decided } = await change(trx, decide);
        return isWritten ? { ...decided, row: storedRow(await readTables(trx, dialect, false), decided.row) } : decided;
      }),
    /** Differences from what a resource declares, a sentence each. Rejects as `declaredChanges`. */
    compare: async (target: GroupTarget) => declaredChanges(await read(), target).differences,
    /** Writes what a resource declares. Rejects as `declaredChanges`. @param isTried true: nothing is left written */
    declare: (target: GroupTarget, isTried = false) =>
      run(async (trx) => {
        await change(trx, (present) => declaredChanges(present, target));
        if (isTried) throw TRIED;
      }).catch((error: unknown) => {
        if (error === TRIED) return;
        // Rows are locked: only a key of the table itself can be in the way.
        const isDuplicate = error instanceof GatewayError && error.code === 'EG_CONFLICT' && error.field === 'name';
        throw isDuplicate ? new GatewayError('EG_IMPOSSIBLE', NAMES_ONCE, { cause: error }) : error;
      }),
  };
}

/** Columns of fields. */
export const columnsOf = <R extends object>(fields: readonly string[]) =>
  Object.fromEntries(fields.map((field) => [field, columnOf(field)])) as ColumnNames<R>;
const groupNames = columnsOf<ResourceGroupRow>(['resourceGroupId', 'name', ...Object.keys(groupColumns)]);
const selectorNames = columnsOf<SelectorRow>(['resourceGroupId', 'priority', 'id', ...selectorTextNames]);

/** Readers of the tables. @param isLocked true: the rows are locked until the transaction ends. SQLite locks as a whole */
const readers: { readonly [T in keyof GroupRows]: (trx: Knex, isLocked: boolean) => Promise<GroupRows[T]> } = {
  groups: async (trx, isLocked) => {
    const rows: ResourceGroupRow[] = await locked(trx(GROUPS).select(groupNames).orderBy(ID), isLocked);
    // Databases but PostgreSQL have numbers for truth values.
    return rows.map((row) => ({ ...row, jmxExport: row.jmxExport === null ? null : Boolean(row.jmxExport) }));
  },
  selectors: async (trx, isLocked) => {
    const query = trx(SELECTORS).select('*').orderBy('priority', 'desc').orderBy(ID);
    const rows: Record<string, never>[] = await locked(query, isLocked);
    return rows.map(({ [ID]: resourceGroupId = 0, priority = 0, id = null, ...row }) => {
      const conditions = mapSelectorFields((name) => row[columnOf(name)] ?? null);
      return { ...conditions, resourceGroupId, priority, id };
    });
  },
  properties: async (trx, isLocked) => await locked(trx(PROPERTIES).select('name', 'value').orderBy('name'), isLocked),
};
const locked = (query: Knex.QueryBuilder, isLocked: boolean): Knex.QueryBuilder =>
  isLocked ? query.forUpdate() : query;

async function readTables(trx: Knex, dialect: SqlDialect, isLocked: boolean): Promise<StoredTables> {
  // Rows that another replica inserted while this one waited for its locks are not visible to the waiting statement.
  if (isLocked) await trx(GROUPS).select(ID).orderBy(ID).forUpdate();
  return {
    groups: await readers.groups(trx, isLocked),
    selectors: await readers.selectors(trx, isLocked),
    properties: await readers.properties(trx, isLocked),
    needsMemoryLimit: (await dialect.columns(trx, GROUPS))?.get('soft_memory_limit')?.endsWith('not null') === true,
    selectorColumns: new Set((await dialect.columns(trx, SELECTORS))?.keys()),
  };
}

/** Turns the rows of the tables into others. New groups have negative ids; rows that stay are the same objects. */
async function writeRows(trx: Knex, present: StoredTables, rows: GroupRows): Promise<void> {
  const [before, after] = [new Set(present.selectors), new Set(rows.selectors)];
  const hasKey = present.selectorColumns.has('id');
  const keyOf = ({ id, resourceGroupId, priority }: SelectorRow) => (hasKey ? [id ?? 0] : [resourceGroupId, priority]);
  const deletions = present.selectors.filter((row) => !after.has(row)).map(keyOf);
  const key = hasKey ? ['id'] : [ID, 'priority'];
  for (const batch of batches(deletions, BATCH)) await trx(SELECTORS).whereIn(key, batch).delete();
  const left = new Set(rows.groups.map(({ resourceGroupId }) => resourceGroupId));
  // First, as a group that is moved has the name of one that goes, and some tables take each name once.
  const deleted = present.groups.map(({ resourceGroupId }) => resourceGroupId).filter((id) => !left.has(id));
  // Foreign keys would ask for an order, or delete rows that get another parent.
  for (const batch of batches(deleted, BATCH)) await trx(GROUPS).whereIn('parent', batch).update({ parent: null });
  for (const batch of batches(deleted, BATCH)) await trx(GROUPS).whereIn(ID, batch).delete();
  const idOf = await writeGroups(trx, present.groups, rows.groups);
  // Without a key, rows of the same group and priority went together, and those that stay come again.
  const keys = new Set(deletions.map(String));
  const added = rows.selectors.filter((row) => !before.has(row) || keys.has(String(keyOf(row))));
  const isThere = ([, column]: [string, string]) => present.selectorColumns.has(column);
  const names = Object.fromEntries(Object.entries(selectorNames).filter(isThere)) as typeof selectorNames;
  for (const batch of batches(added, BATCH)) {
    const columns = batch.map((row) => {
      const { id, ...others } = toColumns({ ...row, resourceGroupId: idOf(row.resourceGroupId) }, names);
      return id == null ? others : { ...others, id };
    });
    await trx(SELECTORS).insert(columns);
  }
  const [had, has] = [new Set(present.properties), new Set(rows.properties)];
  for (const { name } of had.difference(has)) await trx(PROPERTIES).where({ name }).delete();
  for (const row of has.difference(had)) await trx(PROPERTIES).insert(row);
}

/** Inserts groups level by level, as each needs the id of its parent, and updates others. Returns the id of a group by the one that it had. */
async function writeGroups(trx: Knex, present: readonly ResourceGroupRow[], groups: readonly ResourceGroupRow[]) {
  const ids = new Map<number, number>();
  const idOf = (id: number): number => ids.get(id) ?? id;
  const withParent = (row: ResourceGroupRow) => ({ ...row, parent: row.parent && idOf(row.parent) });
  let waiting = groups.filter(({ resourceGroupId }) => resourceGroupId < 0);
  while (waiting.length > 0) {
    const level = waiting.map(withParent).filter(({ parent }) => parent === null || parent >= 0);
    for (const batch of batches(level, BATCH)) {
      const columns = batch.map((row) => toColumns(row, groupNames));
      await trx(GROUPS).insert(columns.map(({ [ID]: _new, ...others }) => others));
    }
    // Databases differ in what they say of the ids of several rows.
    const stored: ResourceGroupRow[] = await trx(GROUPS).select(groupNames);
    const byPlace = new Map(stored.map((row) => [groupPlace(row), row.resourceGroupId]));
    for (const row of level) ids.set(row.resourceGroupId, byPlace.get(groupPlace(row)) ?? 0);
    waiting = waiting.filter(({ resourceGroupId }) => !ids.has(resourceGroupId));
  }
  const stays = new Set(present);
  const updates = groups.filter((row) => row.resourceGroupId > 0 && !stays.has(row)).map(withParent);
  // No database has an UPDATE with other values for each row; an INSERT of rows whose ids are there is one.
  for (const batch of batches(updates, BATCH)) {
    const columns = batch.map((row) => toColumns(row, groupNames));
    await trx(GROUPS).insert(columns).onConflict(ID).merge();
  }
  return idOf;
}

/**
 * Errors for failures by the codes of the three drivers (DatabaseFailure.code: SQLSTATE, MySQL's error name, SQLite's extended number), or
 * by the driver's words.
 * @param name of the database; null for the gateway's own
 */
const failures = (name: string | null): readonly (readonly [RegExp, ErrorCode, string, (string | undefined)?])[] => {
  const where = name === null ? 'the database' : `the database ${name}`;
  const lacks = `${where} lacks resource_groups, selectors or resource_groups_global_properties; an engine whose resource groups come from it makes them.`;
  const field = name === null ? undefined : 'useSchema';
  const noDatabase = name === null ? /^$/ : /^(3D000|ER_BAD_DB_ERROR|ER_DBACCESS_DENIED_ERROR) /;
  const other = /^(23503|ER_NO_REFERENCED_ROW_2|ER_ROW_IS_REFERENCED_2|SQLITE_787) /;
  const characters = /^(22P05|22021|ER_TRUNCATED_WRONG_VALUE_FOR_FIELD) /;
  return [
    [/^(23505|ER_DUP_ENTRY|SQLITE_2067|SQLITE_1555) /, 'EG_CONFLICT', 'There is one of that name already.', 'name'],
    [other, 'EG_CONFLICT', 'Another change of the groups came between; try again.'],
    [characters, 'EG_IMPOSSIBLE', `The character set of ${where} lacks a character of the values.`],
    [noDatabase, 'EG_NOT_FOUND', `There is no database ${name} that the gateway may use.`, field],
    [/^(42P01|ER_NO_SUCH_TABLE) |no such table/, 'EG_NOT_FOUND', lacks, field],
  ];
};

/**
 * Runs the work in one transaction. What the database states is turned into errors of ours: its words, which hold
 * values, never leave the store but as `cause`.
 * @param name of the database for messages; null for the gateway's own
 */
export async function inTransaction<T>(
  database: Database,
  name: string | null,
  work: (trx: Knex) => Promise<T>,
): Promise<T> {
  try {
    return await database.transaction(work);
  } catch (error) {
    const cause = error instanceof GatewayError ? error.cause : error;
    if (!(cause instanceof DatabaseFailure)) throw error;
    const words = `${cause.code} ${cause.driverMessage}`;
    const [, code, message, field] = failures(name).find(([pattern]) => pattern.test(words)) ?? [];
    if (code === undefined || message === undefined) throw error;
    throw new GatewayError(code, message, { ...(field === undefined ? {} : { field }), cause });
  }
}
