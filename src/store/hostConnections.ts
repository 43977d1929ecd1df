import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { Secret } from '../model/secret.ts';
import type { DatabaseHost, DatabaseHosts } from './databaseHosts.ts';
import type { DatabaseFailure } from './failures.ts';

/** How the connections of a pool find their host among several. */
export interface HostConnections {
  readonly hosts: DatabaseHosts;
  /** Settings of the driver for a host. */
  readonly settingsOf: (host: DatabaseHost) => object;
  /** Milliseconds for asking a server whether it takes writes. */
  readonly checkTimeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** What is used of a driver's connection here. */
interface HostConnection {
  __knex__disposed?: unknown;
  destroy?: () => void;
  connection?: { stream: { destroy: () => void } };
  query?: (sql: string, done: (error: unknown, result?: unknown) => void) => void;
}

/** The part of a client of knex that makes connections. */
interface ConnectingClient {
  readonly config: { readonly hostConnections?: HostConnections | null; readonly followedPassword?: Secret };
  connectionSettings: object;
}

/** Where a connection leads, and until when (monotonic milliseconds) it is used. */
interface Place {
  readonly host: DatabaseHost;
  readonly until: number;
}

const places = new WeakMap<object, Place>();

/**
 * Connects to the first host that answers and is of the kind that is looked for, as the Java drivers do.
 * @param connect makes a connection with the client's settings, which it reads before it waits for anything
 * @throws the driver's error of the last host, where none can be used
 */
export async function connectToHost<C extends HostConnection>(
  client: ConnectingClient,
  connect: () => Promise<C>,
): Promise<C> {
  const { hostConnections: choosing = null, followedPassword } = client.config;
  // Read for each connection: after a rotation the next one already has the new password.
  const password = followedPassword === undefined ? {} : { password: await followedPassword.read() };
  if (choosing === null) {
    if (followedPassword !== undefined) client.connectionSettings = { ...client.connectionSettings, ...password };
    return await connect();
  }
  const { hosts } = choosing;
  const { role, isReadOnlyAfterFirst } = hosts.choice;
  let failure: unknown = null;
  let reader: { readonly connection: C; readonly host: DatabaseHost } | null = null;
  for (const host of hosts.candidates()) {
    let connection: C | null = null;
    try {
      client.connectionSettings = { ...choosing.settingsOf(host), ...password };
      connection = await connect();
      if (role !== 'any' && !(await takesWrites(connection, choosing.checkTimeoutMs))) {
        const why = 'it takes no writes';
        if (role === 'preferPrimary' && reader === null) reader = { connection, host };
        else cut(connection);
        failure ??= Object.assign(new Error(`no host of dataStore.jdbcUrl takes writes: ${why}`), { code: '25006' });
        passOver(choosing, host, why);
        continue;
      }
      if (isReadOnlyAfterFirst && !hosts.isFirst(host)) {
        await answerOf(connection, 'set session transaction read only', choosing.checkTimeoutMs);
      }
      if (reader !== null) cut(reader.connection);
      return placed(choosing, connection, host);
    } catch (error) {
      if (connection !== null) cut(connection);
      failure = error;
      passOver(choosing, host, error instanceof Error ? error.message : String(error));
    }
  }
  if (reader !== null) return placed(choosing, reader.connection, reader.host, true);
  throw failure;
}

/** Whether a connection is to be given up, as a host before its own may serve again. */
export function isOverdue(choosing: HostConnections | null, connection: object): boolean {
  const place = places.get(connection);
  return choosing !== null && place !== undefined && place.until <= choosing.clock.monotonic();
}

/** SQLSTATE and names of errors by which a server says that it has become one that only reads. */
const readOnlyCodes: ReadonlySet<string> = new Set(['25006', 'ER_OPTION_PREVENTS_STATEMENT', 'ER_READ_ONLY_MODE']);

/** Gives up a connection whose server refused a write because it only reads: another may have taken its part. */
export function passOverReadOnly(
  choosing: HostConnections | null,
  connection: HostConnection,
  { code, driverMessage }: DatabaseFailure,
): void {
  const place = places.get(connection);
  if (choosing === null || place === undefined || !readOnlyCodes.has(code)) return;
  connection.__knex__disposed = driverMessage;
  passOver(choosing, place.host, driverMessage);
}

function placed<C extends HostConnection>(
  { hosts, clock, logger }: HostConnections,
  connection: C,
  host: DatabaseHost,
  isMakeshift = false,
): C {
  places.set(connection, { host, until: clock.monotonic() + hosts.lifetimeOf(host, isMakeshift) });
  if (hosts.answered(host)) logger.info({ ...host }, 'a host of the database is used again');
  return connection;
}

function passOver({ hosts, logger }: HostConnections, host: DatabaseHost, reason: string): void {
  if (hosts.failed(host)) logger.warn({ ...host, reason }, 'a host of the database is passed over');
}

async function takesWrites(connection: HostConnection, timeoutMs: number): Promise<boolean> {
  const result = await answerOf(connection, 'show transaction_read_only', timeoutMs);
  const { rows } = result as { readonly rows: readonly { readonly transaction_read_only: string }[] };
  return rows[0]?.transaction_read_only === 'off';
}

/** The answer to a statement; an error after a time without one. */
function answerOf(connection: HostConnection, sql: string, timeoutMs: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const late = Object.assign(new Error(`no answer within ${timeoutMs} ms`), { code: 'EG_QUERY_TIMEOUT' });
    const timer = setTimeout(() => reject(late), timeoutMs);
    connection.query?.(sql, (error, result) => {
      clearTimeout(timer);
      if (error) reject(error);
      else resolve(result);
    });
  });
}

/** Closes a connection at once, without the protocol's good-bye. */
function cut(connection: HostConnection): void {
  if (connection.connection !== undefined) connection.connection.stream.destroy();
  else connection.destroy?.();
}
