import { GatewayError } from '../model/errors.ts';

/**
 * Classes of database errors.
 * - `away`: the server or file cannot serve now (network, shutdown, no connection free, time-out, read-only stand-by,
 * disk full)
 * - `transient`: the same transaction may succeed at once (deadlock, serialisation, SQLite busy)
 * - `data`: the values were rejected (too long, not encodable, packet too large, constraint)
 * - `defect`: everything else; a mistake in the program or a schema that is not ours
 */
export type FailureKind = 'away' | 'transient' | 'data' | 'defect';

/** An error of a driver, with its class; its message is never meant for a client. */
export class DatabaseFailure extends Error {
  override readonly name = 'DatabaseFailure';
  readonly kind: FailureKind;
  /** SQLSTATE, MySQL's error name or SQLite's number, as the driver gives it. */
  readonly code: string;
  /** The driver's message; knex writes SQL text in front of `message`, never here. */
  readonly driverMessage: string;

  constructor(kind: FailureKind, code: string, driverMessage: string) {
    super(driverMessage);
    this.kind = kind;
    this.code = code;
    this.driverMessage = driverMessage;
  }
}

/** Fields that the three drivers put on their errors. */
interface DriverFields {
  readonly name?: string;
  readonly message?: string;
  readonly code?: unknown;
  readonly errno?: unknown;
  readonly sqlMessage?: unknown;
  readonly errcode?: unknown;
  readonly fatal?: unknown;
}

const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENOENT',
  'EACCES',
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'PROTOCOL_ENQUEUE_AFTER_FATAL_ERROR',
  'HANDSHAKE_SSL_ERROR',
  'HANDSHAKE_NO_SSL_SUPPORT',
  'EG_QUERY_TIMEOUT',
]);

/** https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html and MariaDB's list. */
const mysqlAway = new Set([
  1021, 1037, 1040, 1041, 1042, 1043, 1044, 1045, 1049, 1053, 1077, 1078, 1079, 1080, 1114, 1129, 1130, 1152, 1154,
  1156, 1157, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1226, 1290, 1317, 1792, 1836, 1927, 1969, 2002, 2003, 2006,
  2013, 3024, 3159,
]);
const mysqlTransient = new Set([1020, 1213, 1412]);
const mysqlData = new Set([1048, 1062, 1118, 1153, 1264, 1265, 1300, 1301, 1366, 1406, 1451, 1452, 3140, 3819, 4025]);

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
function postgresqlKind(state: string): FailureKind {
  // The last two: a pool of connections has lost a prepared statement; repeated, it is not prepared.
  if (['40001', '40P01', '26000', '42P05'].includes(state)) return 'transient';
  if (/^(08|28|53|58|57P)/.test(state)) return 'away';
  // 55000: a database that an administrator has closed (ALLOW_CONNECTIONS false).
  if (['57014', '3D000', '25006', '55P03', '55000'].includes(state)) return 'away';
  if (/^(22|23|54)/.test(state)) return 'data';
  return 'defect';
}

/** https://www.sqlite.org/rescode.html; the low byte is the primary code. */
function sqliteKind(errcode: number): FailureKind {
  const primary = errcode & 0xff;
  if (primary === 5 || primary === 6) return 'transient';
  if ([3, 8, 9, 10, 13, 14, 15, 23].includes(primary)) return 'away';
  if ([18, 19, 20].includes(primary)) return 'data';
  return 'defect';
}

const awayMessages =
  /Connection terminated|connection error and is not queryable|timeout expired|Client was closed|Unable to acquire a connection|Timeout acquiring a connection|aborted|closed state|Connection ended|pool is (destroyed|draining)|database is not open|server does not support SSL/i;

/** Classifies any error that a driver, knex or its pool threw; a DatabaseFailure gets a response as it is. */
export function databaseFailure(error: unknown): DatabaseFailure {
  if (error instanceof DatabaseFailure) return error;
  const fields = (typeof error === 'object' && error !== null ? error : {}) as DriverFields;
  const message = typeof fields.sqlMessage === 'string' ? fields.sqlMessage : (fields.message ?? String(error));
  const code = fields.code === undefined ? (fields.name ?? '') : String(fields.code);
  const failure = (kind: FailureKind, reported = code) => new DatabaseFailure(kind, reported, message);
  if (typeof fields.errcode === 'number') return failure(sqliteKind(fields.errcode), `SQLITE_${fields.errcode}`);
  if (typeof fields.errno === 'number' && fields.errno > 1000 && code.startsWith('ER_')) {
    if (mysqlData.has(fields.errno)) return failure('data');
    if (mysqlAway.has(fields.errno)) return failure('away');
    return failure(mysqlTransient.has(fields.errno) ? 'transient' : fields.fatal === true ? 'away' : 'defect');
  }
  if (networkCodes.has(code) || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL') || code.includes('CERT')) {
    return failure('away');
  }
  if (/^[0-9A-Z]{5}$/.test(code) && /[0-9]/.test(code)) return failure(postgresqlKind(code));
  if (fields.name === 'KnexTimeoutError' || fields.name === 'TimeoutError' || fields.name === 'AggregateError') {
    return failure('away');
  }
  return failure(awayMessages.test(message) || fields.fatal === true ? 'away' : 'defect');
}

/** Causes of a database that cannot be used, each with the fix, by the codes of the drivers. */
const causes: readonly (readonly [pattern: RegExp, cause: string])[] = [
  [
    /^(28000|28P01|ER_ACCESS_DENIED_ERROR|ER_ACCESS_DENIED_NO_PASSWORD_ERROR)$/,
    'it rejects the user or the password; check dataStore.user and dataStore.password',
  ],
  [/^(3D000|ER_BAD_DB_ERROR)$/, 'the database does not exist; create it or correct dataStore.jdbcUrl'],
  [
    /^ER_DBACCESS_DENIED_ERROR$/,
    'the database does not exist or dataStore.user has no rights on it; create it, grant the rights or correct dataStore.jdbcUrl',
  ],
  [/^ECONNREFUSED$/, 'connection refused; check host and port in dataStore.jdbcUrl, and that the server runs'],
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'the host name cannot be resolved; check dataStore.jdbcUrl'],
  [/CERT|^ERR_(TLS|SSL)|^HANDSHAKE_/, 'the TLS connection fails; check the TLS parameters of dataStore.jdbcUrl'],
];

/** Returns the cause in words, without names and addresses; null if only the driver's message describes it. */
function causeOf({ code }: DatabaseFailure): string | null {
  return causes.find(([pattern]) => pattern.test(code))?.[1] ?? null;
}

/**
 * The error a repository throws: GatewayErrors pass; "away" (and a conflict that did not go away by repeating) becomes
 * EG_DATABASE_UNAVAILABLE; all else stays a DatabaseFailure, which the API responses as EG_INTERNAL. Neither holds SQL
 * text.
 */
export function storeError(error: unknown): Error {
  if (error instanceof GatewayError) return error;
  const failure = databaseFailure(error);
  if (failure.kind === 'away' || failure.kind === 'transient') {
    const cause = causeOf(failure);
    const message =
      cause === null
        ? 'The database is unavailable or too busy; try again shortly.'
        : `The database is unavailable: ${cause}.`;
    return new GatewayError('EG_DATABASE_UNAVAILABLE', message, {
      retryAfterSeconds: 5,
      cause: new DatabaseFailure(failure.kind, failure.code, failure.driverMessage),
    });
  }
  return new DatabaseFailure(failure.kind, failure.code, failure.driverMessage);
}

/** Returns the driver's message for the log; null if the error did not come from a driver. */
export function driverMessageOf(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : null;
  return cause instanceof DatabaseFailure ? cause.driverMessage : null;
}

/** True if an error of a repository states that the database is unavailable. */
export function isDatabaseAway(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'EG_DATABASE_UNAVAILABLE';
}
