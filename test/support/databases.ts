import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Dialect } from '../../src/store/store.ts';
import { hasMariadb, startMariadb } from './mariadb.ts';
import { hasPostgresql, startPostgresql } from './postgresql.ts';
import type { TestServer } from './serverProcess.ts';
import { hasSharedServers, type SharedServer, shareOf } from './sharedServer.ts';

/** A database family that repository tests run on. */
export interface TestDatabase {
  /** Creates an empty database; answers the settings for `openStore`. */
  create(): Promise<{ jdbcUrl: string; user?: string; password?: string }>;
  dispose(): Promise<void>;
}

/** A database server, which has users. */
export interface ServerDatabase extends TestDatabase {
  create: TestServer['createDatabase'];
}

interface DatabaseFamily<D extends TestDatabase = TestDatabase> {
  readonly name: Dialect;
  readonly available: () => boolean;
  readonly start: () => Promise<D>;
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

/** A server that the files of a suite share where its setup says so; else one of the file's own. */
const family = (
  name: Dialect,
  available: () => boolean,
  server: SharedServer,
  startOwn: () => Promise<TestServer>,
): DatabaseFamily<ServerDatabase> => ({
  name,
  available,
  start: async () => {
    if (hasSharedServers()) return { create: () => shareOf(server), dispose: () => Promise.resolve() };
    const own = await startOwn();
    return { create: () => own.createDatabase(), dispose: () => own.dispose() };
  },
});

export const mariadb = family('mysql', hasMariadb, 'mariadb', startMariadb);
export const postgresql = family('postgresql', hasPostgresql, 'postgresql', startPostgresql);

/** SQLite always; the servers where they are installed (all of them with CI=true). */
export const databases: readonly DatabaseFamily[] = [sqlite, mariadb, postgresql];

/** The last family that is installed here: for what does not depend on the dialect, which tests of the store cover. */
export const oneDatabase = databases.findLast(({ available }) => available()) ?? sqlite;
