import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import knexFactory, { type Knex } from 'knex';
import pg from 'pg';
import type { Logger } from 'pino';
import { type DatabaseHost, firstOf } from './databaseHosts.ts';
import type { SqlDialect } from './dialect.ts';
import { mysqlDialect } from './dialects/mysql.ts';
import { postgresqlDialect } from './dialects/postgresql.ts';
import { SqliteClient, sqliteDialect } from './dialects/sqlite.ts';
import { databaseFailure, storeError } from './failures.ts';
import type { DatabaseTarget, DatabaseTls, ServerTarget } from './jdbcUrl.ts';
import { MysqlClient, PostgresqlClient } from './knexClients.ts';
import type { Fence } from './store.ts';

/** Bounds of the connection pool, milliseconds. */
export interface DatabaseLimits {
  /** Connections to a server; SQLite always has one. */
  readonly maxConnections: number;
  /** Waiting for a free connection. */
  readonly acquireTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly queryTimeoutMs: number;
}

/** Defaults: nothing that asks the database waits longer than about 10 s. */
export const defaultLimits: DatabaseLimits = {
  maxConnections: 10,
  acquireTimeoutMs: 5000,
  connectTimeoutMs: 5000,
  queryTimeoutMs: 10_000,
};

/** Time that a transaction that met a conflict (deadlock, SQLite busy) is repeated. */
const PATIENCE_MS = 5000;
/** The same for a migration, during which another process may hold SQLite's lock for long. */
const MIGRATION_PATIENCE_MS = 120_000;

/** A connection pool with classified errors and repeated conflicts. */
export class Database {
  readonly knex: Knex;
  readonly dialect: SqlDialect;

  constructor(knex: Knex, dialect: SqlDialect) {
    this.knex = knex;
    this.dialect = dialect;
  }

  /**
   * Runs single statements. They may run again after a conflict, so they must be repeatable.
   * @throws GatewayError EG_DATABASE_UNAVAILABLE, or DatabaseFailure for everything else
   */
  run<T>(work: (knex: Knex) => PromiseLike<T>): Promise<T> {
    return repeatConflicts(work, this.knex);
  }

  /**
   * Runs single reading statements that add up very many rows into few, with the settings that make the database
   * quick at it. Errors as `run`.
   */
  addUp<T>(work: (knex: Knex) => Promise<T>): Promise<T> {
    const { addingUp } = this.dialect;
    if (addingUp === null) return this.run(work);
    return this.snapshot(async (trx) => {
      await trx.raw(addingUp);
      return await work(trx);
    });
  }

  /** Runs `work` in one transaction, repeated as a whole after a conflict. Errors as `run`. */
  transaction<T>(work: (trx: Knex.Transaction) => Promise<T>, config?: Knex.TransactionConfig): Promise<T> {
    return repeatConflicts((knex) => knex.transaction(work, config), this.knex);
  }

  /** Runs reading statements that see the database as it was at one time, whatever is written meanwhile. Errors as `run`. */
  snapshot<T>(work: (trx: Knex.Transaction) => Promise<T>): Promise<T> {
    return repeatConflicts((knex) => knex.transaction(work, this.dialect.snapshot), this.knex);
  }

  /**
   * Milliseconds since 1970 by the database's clock, which all replicas share.
   * @param knex of the work or the transaction that asks
   */
  async time(knex: Knex): Promise<number> {
    const row = (await knex.first(knex.raw(`${this.dialect.clockMs} as now`))) as { readonly now: number };
    return row.now;
  }

  /** Runs `work` alone among all processes that migrate this database. */
  migrateAlone<T>(work: (connection: Knex) => Promise<T>): Promise<T> {
    return repeatConflicts((knex) => this.dialect.migrateAlone(knex, work), this.knex, MIGRATION_PATIENCE_MS);
  }

  async close(): Promise<void> {
    await this.knex.destroy();
  }
}

async function repeatConflicts<T>(work: (knex: Knex) => PromiseLike<T>, knex: Knex, limit = PATIENCE_MS): Promise<T> {
  const start = performance.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await work(knex);
    } catch (error) {
      const conflict = !(error instanceof Error && error.name === 'GatewayError') && databaseFailure(error).kind;
      if (conflict !== 'transient' || performance.now() - start > limit) throw storeError(error);
      await sleep(Math.random() * Math.min(20 * attempt, 200));
    }
  }
}

/** PostgreSQL's bigint (20) and sums of it (numeric, 1700) as numbers; all of ours are below 2^53. Set per connection. */
const postgresqlTypes = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    (oid === 20 || oid === 1700) && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format as 'text'),
};

function serverTls(tls: DatabaseTls | null): object | undefined {
  if (tls === null) return undefined;
  return {
    rejectUnauthorized: tls.verify,
    ...(tls.ca === null ? {} : { ca: tls.ca }),
    // mysql2 asks `verifyIdentity`, pg and Node.js `checkServerIdentity`.
    ...(tls.verify && tls.verifyHost ? { verifyIdentity: true } : { checkServerIdentity: () => undefined }),
  };
}

function serverConnection(target: ServerTarget, host: DatabaseHost, connectTimeoutMs: number): object {
  const tls = serverTls(target.tls);
  const common = {
    host: host.host,
    port: host.port,
    database: target.database,
    ...(target.user === null ? {} : { user: target.user }),
    ...(typeof target.password === 'string' ? { password: target.password } : {}),
    ...(tls === undefined ? {} : { ssl: tls }),
  };
  return target.dialect === 'mysql'
    ? { ...common, connectTimeout: connectTimeoutMs, charset: 'utf8mb4', enableKeepAlive: true, decimalNumbers: true }
    : {
        ...common,
        connectionTimeoutMillis: connectTimeoutMs,
        keepAlive: true,
        types: postgresqlTypes,
        application_name: 'engine-gateway',
      };
}

/** Shortest time for connecting to one of several hosts. */
const MIN_CONNECT_TIMEOUT_MS = 1000;

/** Opens the pool; connections are made when they are needed, so a server that is unavailable is no error here. */
export function openDatabase(target: DatabaseTarget, limits: DatabaseLimits, logger: Logger): Database {
  const log = {
    warn: (message: unknown) => logger.debug({ detail: String(message) }, 'database driver'),
    error: (message: unknown) => logger.warn({ detail: String(message) }, 'database driver'),
    debug: () => {},
    deprecate: () => {},
  };
  const acquireTimeoutMillis = limits.acquireTimeoutMs;
  const shared = { log, compileSqlOnError: false, acquireConnectionTimeout: acquireTimeoutMillis };
  if (target.dialect === 'sqlite') {
    if (target.file !== ':memory:') mkdirSync(path.dirname(path.resolve(target.file)), { recursive: true });
    const config = {
      ...shared,
      client: SqliteClient as unknown as typeof Knex.Client,
      connection: { filename: target.file },
      useNullAsDefault: true,
      // An idle connection of `:memory:` would take the data with it.
      pool: { min: 1, max: 1, acquireTimeoutMillis },
    };
    return new Database(knexFactory(config), sqliteDialect);
  }
  const [first] = target.hosts;
  if (first === undefined) throw new Error('a database server without a host');
  const { length: hostCount } = target.hosts;
  // All hosts are tried while a connection is waited for, unless the URL states otherwise.
  const ownTimeoutMs = Math.max(Math.ceil(limits.connectTimeoutMs / hostCount), MIN_CONNECT_TIMEOUT_MS);
  const connectTimeoutMs = target.connectTimeoutMs ?? ownTimeoutMs;
  const config = {
    ...shared,
    client: (target.dialect === 'mysql' ? MysqlClient : PostgresqlClient) as unknown as typeof Knex.Client,
    connection: serverConnection(target, first, connectTimeoutMs) as Knex.StaticConnectionConfig,
    ...(hostCount < 2 && !target.isPrimary
      ? {}
      : { connectToFirst: firstOf(target.hosts, target.isPrimary, connectTimeoutMs, logger) }),
    ...(target.password === null || typeof target.password === 'string' ? {} : { followedPassword: target.password }),
    queryTimeoutMs: target.queryTimeoutMs ?? limits.queryTimeoutMs,
    ...(target.schemas.length > 0 ? { searchPath: target.schemas } : {}),
    pool: {
      min: 0,
      max: limits.maxConnections,
      acquireTimeoutMillis,
      createTimeoutMillis: connectTimeoutMs * hostCount + 2000,
      destroyTimeoutMillis: 2000,
      idleTimeoutMillis: 60_000,
      propagateCreateError: true,
    },
  };
  return new Database(knexFactory(config), target.dialect === 'mysql' ? mysqlDialect : postgresqlDialect);
}

export interface LeaderRow {
  readonly holder: string | null;
  readonly epoch: number;
  readonly expires: number;
  readonly now: number;
}

/** Locks the row of `eg_leader`. */
export async function lockedLeader(trx: Knex.Transaction, database: Database): Promise<LeaderRow | undefined> {
  const { clockMs, forUpdate } = database.dialect;
  const lock = trx('eg_leader')
    .where('name', 'leader')
    .first('holder', 'epoch', 'expires', trx.raw(`${clockMs} as now`));
  return (await (forUpdate === '' ? lock : lock.forUpdate())) as LeaderRow | undefined;
}

/** True if a fence still holds. Until the transaction ends, no other replica can take over. */
export async function fenceHolds(trx: Knex.Transaction, database: Database, fence: Fence): Promise<boolean> {
  const row = await lockedLeader(trx, database);
  return row !== undefined && row.holder === fence.holder && row.epoch === fence.epoch;
}
