import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import type { Knex } from 'knex';
import type { Secret } from '../model/secret.ts';
import { inTime } from '../model/timeLimit.ts';
import type { ConnectToFirst, DatabaseHost } from './databaseHosts.ts';
import { databaseFailure } from './failures.ts';

export interface RawConnection {
  __knex__disposed?: unknown;
  destroy?: () => void;
  end?: (done: (error?: unknown) => void) => unknown;
  /** pg: the protocol object with its socket. */
  connection?: { stream: { destroy: () => void } };
  query?: (sql: string, done: (error: unknown, result?: unknown) => void) => void;
}

export interface QueryObject {
  sql: string;
  bindings?: readonly unknown[];
  response?: unknown;
  context?: unknown;
  options?: { readonly isPrepared?: true };
}

/** The part of knex's clients that ours override; knex publishes no types for it. */
interface BaseClient {
  config: { queryTimeoutMs?: number; connectToFirst?: ConnectToFirst; followedPassword?: Secret; isShared?: boolean };
  connectionSettings: { filename: string; password?: unknown };
  driver: unknown;
  acquireRawConnection(): Promise<RawConnection>;
  destroyRawConnection(connection: RawConnection): Promise<unknown>;
  _query(connection: RawConnection, query: QueryObject): Promise<QueryObject>;
}

export type ClientClass = new (config: Knex.Config) => BaseClient;

export const requireModule = createRequire(import.meta.url);
const PostgresqlBase = requireModule('knex/lib/dialects/postgres/index.js') as ClientClass;
const MysqlBase = requireModule('knex/lib/dialects/mysql2/index.js') as ClientClass;

/** Closes a connection immediately, without the protocol's good-bye. */
function cut(connection: RawConnection): void {
  if (connection.connection !== undefined) connection.connection.stream.destroy();
  else connection.destroy?.();
}

/** Connects to one of the hosts, with the password that is current. */
async function connectToHost(
  client: BaseClient,
  connect: () => Promise<RawConnection>,
  run: (connection: RawConnection, query: QueryObject) => Promise<QueryObject>,
): Promise<RawConnection> {
  const { connectToFirst, followedPassword } = client.config;
  if (connectToFirst === undefined && followedPassword === undefined) return await connect();
  const connectTo = async (host?: DatabaseHost): Promise<RawConnection> => {
    // knex hides the password, so that a copy of the settings lacks it. A followed one is read for each connection.
    const { password: fixed } = client.connectionSettings;
    const password = followedPassword === undefined ? fixed : await followedPassword.read();
    client.connectionSettings = { ...client.connectionSettings, ...host, password };
    return await connect();
  };
  return connectToFirst === undefined ? await connectTo() : await connectToFirst(connectTo, run, cut);
}

/** SQLSTATE and names of errors of a server that only reads. */
const readOnlyCodes: ReadonlySet<string> = new Set(['25006', 'ER_OPTION_PREVENTS_STATEMENT', 'ER_READ_ONLY_MODE']);

/** Runs a query under the client's time-out. A connection whose query did not end in time is of no more use and is cut. */
async function timedQuery(
  client: BaseClient,
  connection: RawConnection,
  run: () => Promise<QueryObject>,
): Promise<QueryObject> {
  const limit = client.config.queryTimeoutMs ?? 0;
  const late = (): Error => {
    const error = Object.assign(new Error(`no answer within ${limit} ms`), { code: 'EG_QUERY_TIMEOUT' });
    connection.__knex__disposed = error.message;
    cut(connection);
    return error;
  };
  try {
    return await (limit === 0 ? run() : inTime(run(), limit, late));
  } catch (error) {
    const failure = databaseFailure(error);
    // The next connection leads to a host that takes writes.
    if (readOnlyCodes.has(failure.code)) connection.__knex__disposed = failure.driverMessage;
    throw failure;
  }
}

/** Says good-bye, for a second at most: the pool must not wait for a server that is unavailable. */
async function closeConnection(connection: RawConnection): Promise<void> {
  if (connection.__knex__disposed !== undefined) return cut(connection);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, 1000);
    connection.end?.(() => {
      clearTimeout(timer);
      resolve();
    });
  });
  cut(connection);
}

/** A client of knex with time-outs and classified errors. @param prepare sets the session of a new connection */
function serverClient(base: ClientClass, prepare: (connection: RawConnection) => Promise<void> = async () => {}) {
  return class extends base {
    override acquireRawConnection(): Promise<RawConnection> {
      const connect = async () => {
        const connection = await super.acquireRawConnection();
        await prepare(connection);
        return connection;
      };
      return connectToHost(this, connect, (connection, query) => super._query(connection, query));
    }

    override _query(connection: RawConnection, query: QueryObject): Promise<QueryObject> {
      return timedQuery(this, connection, () => super._query(connection, query));
    }

    override destroyRawConnection(connection: RawConnection): Promise<unknown> {
      return closeConnection(connection);
    }
  };
}

/** Options of a statement with a constant text, which PostgreSQL parses and plans once for each connection. */
export const prepared = { isPrepared: true } as const;

/** SQLSTATE of a server connection that a pool shares between clients without their prepared statements. */
const sharedCodes: ReadonlySet<string> = new Set(['26000', '42P05']);
const statementNames = new Map<string, string>();

function statementName(sql: string): string {
  const name = statementNames.get(sql) ?? `eg_${createHash('sha256').update(sql).digest('hex').slice(0, 32)}`;
  statementNames.set(sql, name);
  return name;
}

export class PostgresqlClient extends serverClient(PostgresqlBase) {
  override async _query(connection: RawConnection, query: QueryObject): Promise<QueryObject> {
    const { config } = this;
    const isNamed = query.options?.isPrepared === true && config.isShared !== true;
    if (!isNamed) return await super._query(connection, query);
    try {
      return await super._query(connection, Object.assign(query, { options: { name: statementName(query.sql) } }));
    } catch (error) {
      if (sharedCodes.has(databaseFailure(error).code)) config.isShared = true;
      throw error;
    }
  }
}

/**
 * Settings of each MySQL session. Strict, so that nothing is cut silently; without NO_BACKSLASH_ESCAPES and ANSI_QUOTES,
 * under which the driver's quoting would not hold; UTC, so that the clock of leases has no repeated hour.
 */
const MYSQL_SESSION =
  "set session sql_mode='STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', time_zone='+00:00', innodb_lock_wait_timeout=10";

export const MysqlClient = serverClient(
  MysqlBase,
  (connection) =>
    new Promise((resolve, reject) => {
      connection.query?.(MYSQL_SESSION, (error) => (error ? reject(error) : resolve()));
    }),
);
