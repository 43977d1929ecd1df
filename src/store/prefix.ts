import type { Knex } from 'knex';

/** A text as a pattern of `like … escape '!'` that matches it alone. */
export const literalPattern = (text: string): string => text.replace(/[!%_]/g, '!$&');

/** Narrows a query to rows where a column begins with a text. */
export function whereBegins(query: Knex.QueryBuilder, column: string, text: string): void {
  query.whereRaw("?? like ? escape '!'", [column, `${literalPattern(text)}%`]);
}
