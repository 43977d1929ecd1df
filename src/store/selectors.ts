import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import {
  type NewSelector,
  type SelectorColumns,
  type SelectorRow,
  type SelectorText,
  selectorTextColumns,
} from '../model/selector.ts';
import type { Changed, Written } from './resourceGroupStore.ts';
import { idEquals, inTransaction, locked, type ResourceGroupTables } from './resourceGroupTables.ts';
import type { Dialect } from './store.ts';

export const SELECTORS = 'selectors';
const GROUP = 'resource_group_id';
const texts = Object.entries(selectorTextColumns) as [SelectorText, string][];

type RawRow = Readonly<Record<string, unknown>>;

/** Reads and writes `selectors`. */
export function selectors(tables: ResourceGroupTables) {
  const dialect = tables.database.dialect.name;
  const columnsOf = async (trx: Knex) => new Set(Object.keys(await trx(SELECTORS).columnInfo()));

  const requireGroup = async (trx: Knex, id: number, field: string): Promise<void> => {
    const query = trx('resource_groups')
      .select(GROUP)
      .where(idEquals(trx, GROUP, id, dialect));
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
      query.where(idEquals(trx, GROUP, selector.resourceGroupId, dialect));
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
        const query = trx(SELECTORS).select('*').orderBy('priority', 'desc').orderBy(GROUP);
        if (resourceGroupId !== null) query.where(idEquals(trx, GROUP, resourceGroupId, dialect));
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
        const newest = await locked(
          trx('resource_groups').select(GROUP, 'name').orderBy(GROUP, 'desc').limit(1),
          dialect,
        );
        const group: RawRow | undefined = newest[0];
        if (group === undefined) {
          const message = 'There is no resource group that the selector could point to; create one first.';
          throw new GatewayError('EG_CONFLICT', message, { field: 'resourceGroupId' });
        }
        const resourceGroupId = Number(group[GROUP]);
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
          .where(idEquals(trx, GROUP, selector.resourceGroupId, dialect));
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

export function newestGroupWarning(id: number, name: string): string {
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
  return { [GROUP]: selector.resourceGroupId, priority: selector.priority, ...Object.fromEntries(values) };
}

export function selectorFromRow(row: RawRow): SelectorRow {
  const values = texts.map(([field, column]) => [field, row[column] ?? null]);
  return {
    ...(Object.fromEntries(values) as Record<SelectorText, string | null>),
    resourceGroupId: Number(row[GROUP]),
    priority: Number(row.priority),
    id: row.id == null ? null : Number(row.id),
  };
}
