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
  const done = await database.migrateAlone((connection) => addMissing(connection, dialect, logger));
  if (done.length > 0) logger.info({ steps: done }, 'database migrated');
}

async function addMissing(connection: Knex, dialect: SqlDialect, logger: Logger): Promise<readonly string[]> {
  const done: string[] = [];
  for (const definition of allTables) {
    if ((await dialect.columns(connection, definition.name)) !== null) continue;
    await connection.raw(definition.create(dialect));
    done.push(`table ${definition.name}`);
  }
  // A database of an early release of the reference: its later migrations, V2 to V4.
  const history = await dialect.columns(connection, 'query_history');
  for (const column of ['routing_group', 'external_url']) {
    if (history?.has(column) !== false) continue;
    await connection.raw(`alter table query_history add ${column} varchar(255)`);
    done.push(`column query_history.${column}`);
  }
  // A database of a version that did not keep which resource registered the owner of a suffix.
  if ((await dialect.columns(connection, 'eg_coordinators'))?.has('cluster_uid') === false) {
    await connection.raw('alter table eg_coordinators add cluster_uid varchar(128)');
    done.push('column eg_coordinators.cluster_uid');
  }
  if (dialect.widenQueryText !== null && /char/.test(history?.get('query_text') ?? '')) {
    await connection.raw(dialect.widenQueryText);
    done.push('column query_history.query_text widened');
  }
  for (const index of indexes) {
    if (await dialect.hasIndex(connection, index.table, index.name)) continue;
    logger.info({ index: index.name }, 'making an index: on millions of rows this takes minutes');
    await connection.raw(`create index ${index.name} on ${index.table} (${index.columns})`);
    done.push(`index ${index.name}`);
  }
  for (const [table, row] of [
    ['eg_marks', { name: 'resources', value: 0 }],
    ['eg_leader', { name: 'leader', holder: null, epoch: 0, expires: 0 }],
  ] as const) {
    const present = await connection(table).where('name', row.name).first('name');
    if (present === undefined) await connection(table).insert(row);
  }
  return done;
}

/** What the database lacks: tables, columns and indexes by name. */
async function missing(database: Database): Promise<readonly string[]> {
  return database.run(async (knex) => {
    const lacking: string[] = [];
    for (const definition of allTables) {
      const columns = await database.dialect.columns(knex, definition.name);
      if (columns === null) lacking.push(`table ${definition.name}`);
      else {
        for (const column of definition.columns) {
          if (!columns.has(column)) lacking.push(`column ${definition.name}.${column}`);
        }
      }
    }
    if (lacking.length > 0) return lacking;
    for (const index of indexes) {
      if (!(await database.dialect.hasIndex(knex, index.table, index.name))) lacking.push(`index ${index.name}`);
    }
    for (const table of ['eg_marks', 'eg_leader']) {
      if ((await knex(table).first('name')) === undefined) lacking.push(`row of ${table}`);
    }
    return lacking;
  });
}

/** Checks without changing anything; a missing index is no error. @throws GatewayError EG_IMPOSSIBLE naming what is missing */
export async function checkSchema(database: Database): Promise<void> {
  const lacking = (await missing(database)).filter((item) => !item.startsWith('index'));
  if (lacking.length === 0) return;
  throw new GatewayError(
    'EG_IMPOSSIBLE',
    `the database lacks ${lacking.join(', ')}; set dataStore.runMigrationsEnabled to true, or migrate it with another instance`,
    { field: 'dataStore.runMigrationsEnabled' },
  );
}
