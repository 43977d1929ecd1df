import type { Knex } from 'knex';

/** A text as a pattern of `like … escape '!'` that matches it alone. */
export const literalPattern = (text: string): string => text.replace(/[!%_]/g, '!$&');

export function whereBegins(query: Knex.QueryBuilder, column: string, text: string): void {
  query.whereRaw("?? like ? escape '!'", [column, `${literalPattern(text)}%`]);
}
