import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Dialect } from '../../src/store/store.ts';
import { hasMariadb, startMariadb } from './mariadb.ts';
import { hasPostgresql, startPostgresql } from './postgresql.ts';

/** A database family that repository tests run on. */
export interface TestDatabase {
  /** Creates an empty database; answers the settings for `openStore`. */
  create(): Promise<{ jdbcUrl: string; user?: string; password?: string }>;
  dispose(): Promise<void>;
}

interface DatabaseFamily {
  readonly name: Dialect;
  readonly available: () => boolean;
  readonly start: () => Promise<TestDatabase>;
}

/** Databases in files of a folder of their own. */
export const sqlite: DatabaseFamily = {
  name: 'sqlite',
  available: () => true,
  start: async () => {
    const directory = mkdtempSync(path.join(tmpdir(), 'eg-sqlite-'));
    let count = 0;
    return {
      create: async () => ({ jdbcUrl: `jdbc:sqlite:${path.join(directory, `${++count}.db`)}` }),
      dispose: async () => rmSync(directory, { recursive: true, force: true }),
    };
  },
};

/** SQLite always; the servers where they are installed (all of them with CI=true). */
export const databases: readonly DatabaseFamily[] = [
  sqlite,
  {
    name: 'mysql',
    available: hasMariadb,
    start: async () => {
      const server = await startMariadb();
      return { create: () => server.createDatabase(), dispose: () => server.dispose() };
    },
  },
  {
    name: 'postgresql',
    available: hasPostgresql,
    start: async () => {
      const server = await startPostgresql();
      return { create: () => server.createDatabase(), dispose: () => server.dispose() };
    },
  },
];
