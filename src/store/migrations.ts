import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { GatewayError } from '../model/errors.ts';
import type { Database } from './database.ts';
import type { SqlDialect } from './dialect.ts';
import { type Migration, migrations } from './schemaMigrations.ts';
import { type MigrationStep, PlannedSchema } from './schemaPart.ts';
import { readSchemaVersion, recordMigration, rejectIncompatible } from './schemaVersion.ts';

export type { MigrationStep } from './schemaPart.ts';

/**
 * Brings the database to this program's schema version, one process at a time. Parts that are there are left as they
 * are, so that it may run again, on an empty database as well as on one that Trino Gateway has used: its tables, rows
 * and Flyway history stay.
 * @param all migrations, in order: those of the program
 * @throws GatewayError EG_IMPOSSIBLE for a database of a newer version that this program cannot use
 */
export async function migrate(database: Database, logger: Logger, all = migrations): Promise<void> {
  const { dialect } = database;
  if ((await migrationSteps(database, all)).length === 0) return;
  const steps = await database.migrateAlone((connection) => runSteps(connection, dialect, logger, all));
  if (steps.length > 0) logger.info({ steps }, 'database migrated');
}

/**
 * The statements that `migrate` would run, in order; empty for a database that is migrated. Only reads.
 * @throws GatewayError as `migrate`
 */
export function migrationSteps(database: Database, all = migrations): Promise<readonly MigrationStep[]> {
  return database.run(async (knex) => (await plan(knex, database.dialect, all)).steps);
}

/**
 * Checks without changing anything; what is optional, such as an index, may be missing.
 * @throws GatewayError EG_IMPOSSIBLE naming what is missing, or as `migrate`
 */
export async function checkSchema(database: Database, all = migrations): Promise<void> {
  const missing = await database.run(async (knex) => {
    const { steps, missingColumns } = await plan(knex, database.dialect, all);
    return [...steps.filter(({ optional }) => optional !== true).map(({ adds }) => adds), ...missingColumns];
  });
  if (missing.length === 0) return;
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    `the database lacks ${missing.join(', ')}; run "engine-gateway migrate --config FILE" (with --print-sql it prints the statements), or set dataStore.runMigrationsEnabled to true`,
    { field: 'dataStore.runMigrationsEnabled' },
  );
}

async function runSteps(
  connection: Knex,
  dialect: SqlDialect,
  logger: Logger,
  all: readonly Migration[],
): Promise<readonly string[]> {
  // Planned again, now that no other process migrates.
  const { steps } = await plan(connection, dialect, all);
  for (const { adds, sql, isSlow } of steps) {
    if (isSlow === true) logger.info({ step: adds }, 'creating an index: on millions of rows this takes minutes');
    await connection.raw(sql);
  }
  return steps.map(({ adds }) => adds);
}

interface Plan {
  readonly steps: readonly MigrationStep[];
  /** Columns that the program needs and no statement adds. */
  readonly missingColumns: readonly string[];
}

async function plan(connection: Knex, dialect: SqlDialect, all: readonly Migration[]): Promise<Plan> {
  const current = await readSchemaVersion(connection, dialect);
  rejectIncompatible(current, all.at(-1)?.version ?? 0);
  const schema = new PlannedSchema(connection, dialect, current.version);
  const steps: MigrationStep[] = [];
  for (const migration of all) {
    for (const part of migration.parts) steps.push(...(await part(schema)));
    steps.push(...recordMigration(migration, current, dialect));
  }
  return { steps, missingColumns: await schema.missingColumns() };
}
