import type { Knex } from 'knex';

/** Columns of a table by the fields of its rows, as knex selects them. */
export type ColumnNames<R> = Readonly<Record<keyof R & string, string>>;

/** The columns of a row; fields that are left out are null. */
export function toColumns<R extends object>(row: R, columns: ColumnNames<R>): Record<string, unknown> {
  const values = row as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries<string>(columns).map(([field, column]) => [column, values[field] ?? null]));
}

/** Splits rows into those of one statement each. */
export function* batches<T>(all: readonly T[], size: number): Iterable<T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}

/** A text as a pattern of `like … escape '!'` that matches only it. */
export const literalPattern = (text: string): string => text.replace(/[!%_]/g, '!$&');

export function whereBegins(query: Knex.QueryBuilder, column: string, text: string): void {
  query.whereRaw("?? like ? escape '!'", [column, `${literalPattern(text)}%`]);
}
