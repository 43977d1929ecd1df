import { readFileSync } from 'node:fs';
import path from 'node:path';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { hasMariadb, startMariadb } from './mariadb.ts';
import { hasPostgresql, startPostgresql } from './postgresql.ts';

/** How `openStore` and the configuration reach a database. */
export type Settings = { jdbcUrl: string; user: string; password: string };
/** Runs statements and answers the rows of each. */
export type Run = (statements: readonly string[]) => Promise<Record<string, unknown>[][]>;

const onPostgresql =
  ({ jdbcUrl, user }: Settings): Run =>
  async (statements) => {
    const client = new pg.Client({ connectionString: jdbcUrl.replace('jdbc:postgresql://', `postgresql://${user}@`) });
    await client.connect();
    const rows = [];
    for (const statement of statements) rows.push((await client.query(statement)).rows);
    await client.end();
    return rows;
  };
const onMariadb =
  ({ jdbcUrl, user, password }: Settings): Run =>
  async (statements) => {
    const url = new URL(jdbcUrl.replace('jdbc:', ''));
    const connection = await mysql.createConnection({
      ...{ host: url.hostname, port: Number(url.port), database: url.pathname.slice(1), user, password },
    });
    const rows = [];
    for (const statement of statements) rows.push((await connection.query(statement))[0] as Record<string, unknown>[]);
    await connection.end();
    return rows;
  };

/** Statements that make a database as the reference gateway leaves it. */
export const fixture = (name: string) =>
  readFileSync(path.join(import.meta.dirname, '../fixtures/reference', `${name}.sql`), 'utf8')
    .replace(/--.*$/gm, '')
    .split(';')
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '');

/** The database servers that the reference gateway runs on. */
export const families = [
  { ...{ name: 'mysql', available: hasMariadb, start: startMariadb, runner: onMariadb }, schema: 'database()' },
  {
    ...{ name: 'postgresql', available: hasPostgresql, start: startPostgresql, runner: onPostgresql },
    schema: 'current_schema()',
  },
];
