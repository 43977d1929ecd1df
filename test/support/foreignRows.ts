import { DatabaseSync } from 'node:sqlite';
import { vi } from 'vitest';
import type { Dialect } from '../../src/store/store.ts';
import { families, type Run, type Settings } from './referenceDatabases.ts';

/** Runs statements on a database as another program: with a connection of its own. */
export function otherProgram(dialect: Dialect, settings: Settings | { readonly jdbcUrl: string }): Run {
  const family = families.find(({ name }) => name === dialect);
  if (family !== undefined) return family.runner(settings as Settings);
  const onSqlite = (statement: string): Record<string, unknown>[] => {
    const database = new DatabaseSync(settings.jdbcUrl.replace('jdbc:sqlite:', ''), { timeout: 0 });
    try {
      return database.prepare(statement).all();
    } finally {
      database.close();
    }
  };
  // A transaction of this process ends in another turn of the event loop: waiting within the statement would be for ever.
  return async (statements) => {
    const rows = [];
    for (const statement of statements)
      rows.push(await vi.waitFor(() => onSqlite(statement), { timeout: 30_000, interval: 5 }));
    return rows;
  };
}
