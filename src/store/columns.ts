import type { Knex } from 'knex';

/** Columns of a table by the fields of its rows, as knex selects them. */
export type ColumnNames<R> = Readonly<Record<keyof R & string, string>>;

/** The columns of a row; fields that are left out are null. */
export function toColumns<R extends object>(row: R, columns: ColumnNames<R>): Record<string, unknown> {
  const values = row as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries<string>(columns).map(([field, column]) => [column, values[field] ?? null]));
}

/** Splits rows into those of one statement each. @param max bound of the sum of sizes of several rows */
export function* batches<T>(all: readonly T[], max: number, sizeOf: (row: T) => number = () => 1): Iterable<T[]> {
  let start = 0;
  let total = 0;
  for (const [index, row] of all.entries()) {
    const size = all.length === 1 ? 0 : sizeOf(row);
    total += size;
    if (total <= max || index === start) continue;
    yield all.slice(start, index);
    start = index;
    total = size;
  }
  if (start < all.length) yield all.slice(start);
}

/** A text as a pattern of `like … escape '!'` that matches only it. */
export const literalPattern = (text: string): string => text.replace(/[!%_]/g, '!$&');

export function whereBegins(query: Knex.QueryBuilder, column: string, text: string): void {
  query.whereRaw("?? like ? escape '!'", [column, `${literalPattern(text)}%`]);
}

/** Place of a query in lists. */
export interface QueryPlace {
  readonly created: number;
  readonly queryId: string;
}

/** Sorts queries from the newest on, and leaves out those up to a place. @param table its alias */
export function newestFirst(query: Knex.QueryBuilder, table: string, after: QueryPlace | null = null): void {
  const [created, id] = [`${table}.created`, `${table}.query_id`];
  query.orderBy([
    { column: created, order: 'desc' },
    { column: id, order: 'desc' },
  ]);
  if (after === null) return;
  query.where(created, '<=', after.created);
  query.where((older) => older.where(created, '<', after.created).orWhere(id, '<', after.queryId));
}

/** Narrows to times, in milliseconds: `from` inclusive, `to` exclusive. */
export function whereWithin(
  query: Knex.QueryBuilder,
  column: string,
  { from, to }: { readonly from?: number; readonly to?: number },
): void {
  if (from !== undefined) query.where(column, '>=', from);
  if (to !== undefined) query.where(column, '<', to);
}

/** Narrows to the values that are given. @param isPrefix true if their beginnings are enough */
export function whereGiven(
  query: Knex.QueryBuilder,
  columns: Readonly<Record<string, string | undefined>>,
  isPrefix: boolean,
): void {
  for (const [column, value] of Object.entries(columns)) {
    if (value === undefined) continue;
    if (isPrefix) whereBegins(query, column, value);
    else query.where(column, value);
  }
}

/** The same by the columns of a table's alias. */
export function prefixed<T>(table: string, columns: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(columns).map(([column, value]) => [`${table}.${column}`, value]));
}
