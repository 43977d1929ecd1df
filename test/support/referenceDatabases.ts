import { readFileSync } from 'node:fs';
import path from 'node:path';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { afterAll, beforeAll, describe } from 'vitest';
import { mariadb, postgresql, type ServerDatabase } from './databases.ts';

/** How `openStore` and the configuration reach a database. */
export type Settings = Awaited<ReturnType<ServerDatabase['create']>>;
/** Runs statements and answers the rows of each. */
export type Run = (statements: readonly string[]) => Promise<Record<string, unknown>[][]>;

/** A connection to a database. */
export interface DatabaseConnection {
  readonly run: Run;
  close(): Promise<void>;
}

const toPostgresql = async ({ jdbcUrl, user }: Settings): Promise<DatabaseConnection> => {
  const client = new pg.Client({ connectionString: jdbcUrl.replace('jdbc:postgresql://', `postgresql://${user}@`) });
  await client.connect();
  const run: Run = async (statements) => {
    const rows = [];
    for (const statement of statements) rows.push((await client.query(statement)).rows);
    return rows;
  };
  return { run, close: () => client.end() };
};
const toMariadb = async ({ jdbcUrl, user, password }: Settings): Promise<DatabaseConnection> => {
  const url = new URL(jdbcUrl.replace('jdbc:', ''));
  const connection = await mysql.createConnection({
    ...{ host: url.hostname, port: Number(url.port), database: url.pathname.slice(1), user, password },
  });
  const run: Run = async (statements) => {
    const rows = [];
    for (const statement of statements) rows.push((await connection.query(statement))[0] as Record<string, unknown>[]);
    return rows;
  };
  return { run, close: () => connection.end() };
};
/** Runs statements on a connection of their own. */
const runner =
  (connect: (settings: Settings) => Promise<DatabaseConnection>) =>
  (settings: Settings): Run =>
  async (statements) => {
    const connection = await connect(settings);
    const rows = await connection.run(statements);
    await connection.close();
    return rows;
  };

/** Statements that make a database as the reference gateway leaves it. */
const fixture = (name: string) =>
  readFileSync(path.join(import.meta.dirname, '../fixtures/reference', `${name}.sql`), 'utf8')
    .replace(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');

/** The database servers that the reference gateway runs on. */
export const families = [
  { ...mariadb, connect: toMariadb, runner: runner(toMariadb), schema: 'database()' },
  { ...postgresql, connect: toPostgresql, runner: runner(toPostgresql), schema: 'current_schema()' },
];

/** What tests of one family get. */
interface ReferenceFamily {
  /** Statements that make a database as the reference gateway leaves it. */
  readonly fixture: readonly string[];
  /** Expression for the schema of a database. */
  readonly schema: string;
  /** Creates an empty database. */
  create(): Promise<{ readonly settings: Settings; readonly run: Run }>;
}

/** Declares tests for each database server that the reference gateway runs on; skipped where it is not installed. */
export function describeReferenceDatabases(declare: (family: ReferenceFamily) => void): void {
  for (const { name, schema, available, start, runner: runnerOf } of families) {
    describe.skipIf(!available())(`a ${name} database of the reference gateway`, () => {
      let server: ServerDatabase;
      beforeAll(async () => {
        server = await start();
      });
      afterAll(() => server?.dispose());
      const create = async () => {
        const settings = await server.create();
        return { settings, run: runnerOf(settings) };
      };
      declare({ fixture: fixture(name), schema, create });
    });
  }
}
