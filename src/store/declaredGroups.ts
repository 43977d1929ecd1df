import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import {
  ALL_MEMORY,
  type DeclaredGroup,
  type GroupChanges,
  type GroupTarget,
  groupChanges,
} from '../model/groupsFile/declaredGroups.ts';
import { type GroupRows, PERIOD, pathsOf } from '../model/groupsFile/storedGroups.ts';
import { batches } from './columns.ts';
import type { Database } from './database.ts';
import { fenceHolds } from './leaderRepository.ts';
import {
  GROUPS,
  groupFromRow,
  groupToRow,
  ID,
  inTransaction,
  locked,
  needsMemoryLimit,
  PROPERTIES,
  type ResourceGroupTables,
  requireSelectorColumns,
  SELECTORS,
  selectorFromRow,
  selectorToRow,
} from './resourceGroupTables.ts';
import type { Fence } from './store.ts';

type RawRow = Readonly<Record<string, unknown>>;

const BATCH = 500;
const NAMES_ONCE =
  'the table resource_groups takes each name of a group once, also below different parents: give groups of the same name different ones, or drop the unique key of the column name, which engines do not need';

/** Groups, selectors and the period of CPU limits as resources declare them. */
export function declaredGroups(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  const read = async (trx: Knex, isLocked: boolean): Promise<GroupRows> => {
    // Rows that another replica inserted while this one waited for its locks are not visible to the waiting statement.
    if (isLocked) await locked(trx(GROUPS).select(ID).orderBy(ID), dialect);
    const groups = trx(GROUPS).select('*').orderBy(ID);
    const groupRows: RawRow[] = await (isLocked ? locked(groups, dialect) : groups);
    const selectorRows: RawRow[] = await trx(SELECTORS).select('*').orderBy('priority', 'desc');
    const properties = await trx(PROPERTIES).select('name', 'value');
    return { groups: groupRows.map(groupFromRow), selectors: selectorRows.map(selectorFromRow), properties };
  };
  const compare = async (trx: Knex, target: GroupTarget, isLocked: boolean): Promise<GroupChanges> =>
    groupChanges(await read(trx, isLocked), await withMemoryLimits(trx, target));
  return {
    /** Differences from the declaration, a sentence each. Rejects as `groupChanges`. */
    compare: (target: GroupTarget): Promise<readonly string[]> =>
      inTransaction(tables, async (trx) => (await compare(trx, target, false)).differences),
    /**
     * Writes what is declared in one transaction. Rejects as `groupChanges`, and with EG_IMPOSSIBLE for a column that the table does
     * not have.
     */
    apply: (target: GroupTarget) =>
      inTransaction(tables, async (trx) => {
        const changes = await compare(trx, target, true);
        if (changes.differences.length > 0) await change(trx, target, changes);
      }).catch((error: unknown) => {
        // Rows are locked: only a key of the table itself can be in the way.
        const isDuplicate = error instanceof GatewayError && error.code === 'EG_CONFLICT' && error.field === 'name';
        throw isDuplicate ? new GatewayError('EG_IMPOSSIBLE', NAMES_ONCE, { cause: error }) : error;
      }),
  };
}

async function withMemoryLimits(trx: Knex, target: GroupTarget): Promise<GroupTarget> {
  const { rows } = target;
  if (rows.groups.every(({ columns }) => columns.softMemoryLimit !== null)) return target;
  if (!(await needsMemoryLimit(trx))) return target;
  const groups = rows.groups.map((group) => ({
    ...group,
    columns: { ...group.columns, softMemoryLimit: group.columns.softMemoryLimit ?? ALL_MEMORY },
  }));
  return { ...target, rows: { ...rows, groups } };
}

async function change(trx: Knex, { environment }: GroupTarget, changes: GroupChanges): Promise<void> {
  const ids = new Map(changes.ids);
  const rowOf = ({ columns, parentPath }: DeclaredGroup) =>
    groupToRow({ ...columns, parent: ids.get(parentPath ?? '') ?? null, environment });
  // First, as a group that is moved has the name of one that goes, and some tables take each name once.
  for (const batch of batches(changes.deletes, BATCH)) {
    await trx(SELECTORS).whereIn(ID, batch).delete();
    // Foreign keys would ask for an order, or delete rows that get another parent.
    await trx(GROUPS).whereIn('parent', batch).update({ parent: null });
  }
  for (const batch of batches(changes.deletes, BATCH)) await trx(GROUPS).whereIn(ID, batch).delete();
  // Level by level, as each group needs the id of its parent.
  const depthOf = ({ path }: DeclaredGroup) => path.split('.').length;
  const inserts = changes.inserts.toSorted((a, b) => depthOf(a) - depthOf(b));
  for (const level of Map.groupBy(inserts, depthOf).values()) {
    for (const batch of batches(level, BATCH)) await trx(GROUPS).insert(batch.map(rowOf));
    // Databases differ in what they say of the ids of several rows.
    const rows: RawRow[] = await trx(GROUPS).select('*').where({ environment });
    for (const [id, path] of pathsOf(rows.map(groupFromRow))) if (!ids.has(path)) ids.set(path, id);
  }
  // No database has an UPDATE with other values for each row; an INSERT of rows whose ids are there is one.
  const updates = changes.updates.map(({ id, group }) => ({ [ID]: id, ...rowOf(group) }));
  for (const batch of batches(updates, BATCH)) await trx(GROUPS).insert(batch).onConflict(ID).merge();
  await replaceSelectors(trx, changes.selectors, ids);
  if (changes.period === null) return;
  const { value } = changes.period;
  if (value === null) await trx(PROPERTIES).where('name', PERIOD).delete();
  else if ((await trx(PROPERTIES).where('name', PERIOD).update({ value })) === 0) {
    await trx(PROPERTIES).insert({ name: PERIOD, value });
  }
}

/** Replaces all selectors of groups. @param ids of the groups by path */
async function replaceSelectors(
  trx: Knex,
  selectors: GroupChanges['selectors'],
  ids: ReadonlyMap<string, number>,
): Promise<void> {
  if (selectors.size === 0) return;
  const columns = new Set(Object.keys(await trx(SELECTORS).columnInfo()));
  const rows = [...selectors.values()].flat().map(({ path, priority, texts }) => {
    requireSelectorColumns(texts, columns, `selector of ${path}: `);
    return selectorToRow({ ...texts, priority, resourceGroupId: ids.get(path) ?? 0 }, columns);
  });
  const groups = [...selectors.keys()].map((path) => ids.get(path) ?? 0);
  for (const batch of batches(groups, BATCH)) await trx(SELECTORS).whereIn(ID, batch).delete();
  for (const batch of batches(rows, BATCH)) await trx(SELECTORS).insert(batch);
}

const TABLE = 'eg_group_owners';
/** Rows of one statement. */
const OWNERS = 100;

/** `root` of the record of a resource that declares `cpu_quota_period`: no group has this name. */
export const PERIOD_ROOT = '';

/** One environment of a database in which a resource owns root groups. */
export interface GroupPlace {
  /** Of the resource. */
  readonly namespace: string;
  /** `metadata.name` */
  readonly name: string;
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
}

/** A root group that a resource owns, with all groups below it and their selectors. */
export interface GroupOwner extends GroupPlace {
  /** Name of the root group; `PERIOD_ROOT`: the period of CPU limits, which several resources may declare alike. */
  readonly root: string;
  readonly uid: string;
  /** Generation of the resource that was written last, or is being written. */
  readonly generation: number;
  /** False: a write of that generation began, and its end was not noted. */
  readonly isApplied: boolean;
}

/** `eg_group_owners`: which resource owns which root groups of the tables that engines read. */
export class GroupOwnerRepository {
  private readonly database: Database;

  constructor(database: Database) {
    this.database = database;
  }

  all(): Promise<readonly GroupOwner[]> {
    return this.database.run(async (knex) => {
      const rows: GroupOwner[] = await knex(TABLE)
        .select('namespace', 'name', 'environment', 'uid', 'generation')
        .select({ database: 'database_name', root: 'root_group', isApplied: 'is_applied' })
        .orderBy(['namespace', 'name', 'database_name', 'environment', 'root_group']);
      // Drivers give big integers as text, and truth values as numbers.
      return rows.map((row) => ({
        ...row,
        ...{ database: row.database || null, generation: Number(row.generation), isApplied: Boolean(row.isApplied) },
      }));
    });
  }

  /**
   * Stores the roots that a resource owns in a place, whole. A root that another resource owned changes its owner.
   * @param fence null: the caller need not lead
   */
  set(
    { namespace, name, database, environment }: GroupPlace,
    { roots, uid, generation, isApplied }: Omit<GroupOwner, 'root' | keyof GroupPlace> & { roots: Iterable<string> },
    fence: Fence | null,
  ): Promise<'stored' | 'fenced'> {
    return this.database.transaction(async (trx) => {
      // The row that this locks has replicas write one after the other.
      const isLeader = await fenceHolds(trx, this.database, fence ?? { holder: '', epoch: 0 });
      if (fence !== null && !isLeader) return 'fenced';
      const place = { database_name: database ?? '', environment };
      await trx(TABLE)
        .where({ namespace, name, ...place })
        .delete();
      const owned = { namespace, name, ...place, uid, generation, is_applied: isApplied ? 1 : 0 };
      const rows = [...roots].map((root) => ({ ...owned, root_group: root }));
      for (const batch of batches(rows, OWNERS)) {
        const groups = batch.map(({ root_group }) => root_group).filter((root) => root !== PERIOD_ROOT);
        await trx(TABLE).where(place).whereIn('root_group', groups).delete();
        await trx(TABLE).insert(batch);
      }
      return 'stored';
    });
  }
}
