import type { Knex } from 'knex';
import { GatewayError } from '../model/errors.ts';
import { version as program } from '../model/version.ts';
import type { SqlDialect } from './dialect.ts';
import { SCHEMA_TABLE } from './schema.ts';
import type { Migration } from './schemaMigrations.ts';
import type { MigrationStep } from './schemaPart.ts';

export interface SchemaVersion {
  /** That of its last migration; 0 for an empty database, and for one of a version that did not keep it. */
  readonly version: number;
  /** Lowest schema version whose programs work with it. */
  readonly compatibleFrom: number;
  /** Version of the program that made the last migration; null at version 0. */
  readonly program: string | null;
}

interface Row {
  readonly version: number;
  readonly compatible_from: number;
  readonly program: string;
}

export async function readSchemaVersion(connection: Knex, dialect: SqlDialect): Promise<SchemaVersion> {
  const none = { version: 0, compatibleFrom: 0, program: null };
  if ((await dialect.columns(connection, SCHEMA_TABLE)) === null) return none;
  const rows: Row[] = await connection(SCHEMA_TABLE).orderBy('version').select('version', 'compatible_from', 'program');
  const last = rows.at(-1);
  if (last === undefined) return none;
  const compatibleFrom = Math.max(...rows.map((row) => row.compatible_from));
  return { version: last.version, compatibleFrom, program: last.program };
}

/**
 * Rejects a database that a newer program changed beyond what this one can work with.
 * @param ownVersion this program's schema version
 * @throws GatewayError EG_IMPOSSIBLE that states what to do
 */
export function rejectIncompatible(current: SchemaVersion, ownVersion: number): void {
  if (current.compatibleFrom <= ownVersion) return;
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    `the database has schema version ${current.version}, made by engine-gateway ${current.program}, which programs below schema ` +
      `version ${current.compatibleFrom} cannot use; this one, engine-gateway ${program}, has ${ownVersion}. Start engine-gateway ` +
      `${current.program} or newer, or restore the backup of the database from before the upgrade`,
    { field: 'dataStore.jdbcUrl' },
  );
}

/** The statement that records a migration once its parts are there; none if it is recorded. */
export function recordMigration(
  migration: Migration,
  current: SchemaVersion,
  dialect: SqlDialect,
): readonly MigrationStep[] {
  const { version, name, compatibleFrom } = migration;
  if (current.version >= version) return [];
  const values = [version, text(name), compatibleFrom, text(program), dialect.clockMs].join(', ');
  const sql = `insert into ${SCHEMA_TABLE} (version, name, compatible_from, program, applied) values (${values})`;
  return [{ adds: `schema version ${version}`, sql }];
}

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;
