import type { Knex } from 'knex';
import type { Logger } from 'pino';
import { GatewayError } from '../model/errors.ts';
import type { Database } from './database.ts';
import type { SqlDialect } from './dialect.ts';
import { indexes, ownTables, sharedTables } from './schema.ts';

const allTables = [...sharedTables, ...ownTables];

/**
 * Brings the database to this version's tables. Every step only adds what is missing, so that it may run again, on an
 * empty database as well as on one that the reference gateway has used: its tables, rows and Flyway history stay.
 */
export async function migrate(database: Database, logger: Logger): Promise<void> {
  const { dialect } = database;
  if ((await missing(database)).length === 0) return;
  const added = await database.migrateAlone((connection) => addMissing(connection, dialect, logger));
  if (added.length > 0) logger.info({ steps: added }, 'database migrated');
}

/** A statement that adds something the database lacks. */
export interface MigrationStep {
  /** What it adds, for people. */
  readonly adds: string;
  readonly sql: string;
}

/** The statements that `migrate` would run, in order; empty for a database that is migrated. Only reads. */
export function migrationSteps(database: Database): Promise<readonly MigrationStep[]> {
  return database.run((knex) => plannedSteps(knex, database.dialect));
}

async function addMissing(connection: Knex, dialect: SqlDialect, logger: Logger): Promise<readonly string[]> {
  const steps = await plannedSteps(connection, dialect);
  for (const { adds, sql } of steps) {
    if (adds.startsWith('index'))
      logger.info({ index: adds }, 'making an index: on millions of rows this takes minutes');
    await connection.raw(sql);
  }
  return steps.map(({ adds }) => adds);
}

/** Rows that the program expects to find. */
const firstRows = [
  ['eg_marks', 'resources', "insert into eg_marks (name, value) values ('resources', 0)"],
  ['eg_leader', 'leader', "insert into eg_leader (name, holder, epoch, expires) values ('leader', null, 0, 0)"],
] as const;

async function plannedSteps(connection: Knex, dialect: SqlDialect): Promise<readonly MigrationStep[]> {
  const steps: MigrationStep[] = [];
  const newTables = new Set<string>();
  for (const definition of allTables) {
    if ((await dialect.columns(connection, definition.name)) !== null) continue;
    newTables.add(definition.name);
    steps.push({ adds: `table ${definition.name}`, sql: definition.create(dialect) });
  }
  // A database of an early release of the reference: its later migrations, V2 to V4.
  const history = await dialect.columns(connection, 'query_history');
  for (const column of ['routing_group', 'external_url']) {
    if (history?.has(column) !== false) continue;
    const sql = `alter table query_history add ${column} varchar(255)`;
    steps.push({ adds: `column query_history.${column}`, sql });
  }
  // A database of a version that did not keep which resource registered the owner of a suffix.
  if ((await dialect.columns(connection, 'eg_coordinators'))?.has('cluster_uid') === false) {
    const sql = 'alter table eg_coordinators add cluster_uid varchar(128)';
    steps.push({ adds: 'column eg_coordinators.cluster_uid', sql });
  }
  // A database of a version that did not keep which row it projected last.
  if ((await dialect.columns(connection, 'eg_resources'))?.has('backend_row') === false) {
    const sql = `alter table eg_resources add backend_row ${dialect.types.longText}`;
    steps.push({ adds: 'column eg_resources.backend_row', sql });
  }
  if (dialect.widenQueryText !== null && /char/.test(history?.get('query_text') ?? '')) {
    steps.push({ adds: 'column query_history.query_text widened', sql: dialect.widenQueryText });
  }
  for (const { table, name, columns } of indexes) {
    if (!newTables.has(table) && (await dialect.hasIndex(connection, table, name))) continue;
    steps.push({ adds: `index ${name}`, sql: `create index ${name} on ${table} (${columns})` });
  }
  for (const [table, name, sql] of firstRows) {
    const present = newTables.has(table) ? undefined : await connection(table).where('name', name).first('name');
    if (present === undefined) steps.push({ adds: `row of ${table}`, sql });
  }
  return steps;
}

/** What is missing in the database: tables, columns and indexes by name. */
async function missing(database: Database): Promise<readonly string[]> {
  return database.run(async (knex) => {
    const missingItems: string[] = [];
    for (const definition of allTables) {
      const columns = await database.dialect.columns(knex, definition.name);
      if (columns === null) missingItems.push(`table ${definition.name}`);
      else {
        for (const column of definition.columns) {
          if (!columns.has(column)) missingItems.push(`column ${definition.name}.${column}`);
        }
      }
    }
    if (missingItems.length > 0) return missingItems;
    for (const index of indexes) {
      if (!(await database.dialect.hasIndex(knex, index.table, index.name))) missingItems.push(`index ${index.name}`);
    }
    for (const table of ['eg_marks', 'eg_leader']) {
      if ((await knex(table).first('name')) === undefined) missingItems.push(`row of ${table}`);
    }
    return missingItems;
  });
}

/** Checks without changing anything; a missing index is no error. @throws GatewayError EG_IMPOSSIBLE naming what is missing */
export async function checkSchema(database: Database): Promise<void> {
  const missingItems = (await missing(database)).filter((item) => !item.startsWith('index'));
  if (missingItems.length === 0) return;
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    `the database lacks ${missingItems.join(', ')}; run "engine-gateway migrate --config FILE" (with --print-sql it prints the statements), or set dataStore.runMigrationsEnabled to true`,
    { field: 'dataStore.runMigrationsEnabled' },
  );
}
