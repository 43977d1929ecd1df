import { readFileSync } from 'node:fs';
import type { Problem } from '../model/errors.ts';
import type { Secret } from '../model/secret.ts';
import type { DatabaseHost } from './databaseHosts.ts';

/** TLS towards a database server; null: clear text. */
export interface DatabaseTls {
  /** Check the certificate's chain. */
  readonly verify: boolean;
  readonly verifyHost: boolean;
  /** PEM text of the accepted authorities; null: the system's. */
  readonly ca: string | null;
}

export interface SqliteTarget {
  readonly dialect: 'sqlite';
  /** Path, or `:memory:`. */
  readonly file: string;
}

export interface ServerTarget {
  readonly dialect: 'mysql' | 'postgresql';
  readonly hosts: readonly DatabaseHost[];
  /** Only a server that takes writes is used (`targetServerType=primary`). */
  readonly isPrimary: boolean;
  readonly database: string;
  readonly user: string | null;
  readonly password: string | Secret | null;
  readonly tls: DatabaseTls | null;
  /** Schemas of PostgreSQL's search path (`currentSchema`); empty: the role's own. */
  readonly schemas: readonly string[];
  /** Milliseconds; null: the store's default. */
  readonly connectTimeoutMs: number | null;
  readonly queryTimeoutMs: number | null;
}

export type DatabaseTarget = SqliteTarget | ServerTarget;

/** `dataStore.jdbcUrl`, `user` and `password` of the configuration. */
export interface JdbcSettings {
  readonly jdbcUrl?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | Secret | undefined;
}

/** SQLite file used when no URL is configured. */
const DEFAULT_SQLITE_FILE = 'data/gateway.db';

/** Result of parsing: a target, or what is wrong. */
export type JdbcParse =
  | { readonly target: DatabaseTarget; readonly ignored: readonly string[] }
  | { readonly problems: readonly Problem[] };

const URL_FIELD = 'dataStore.jdbcUrl';
const forms =
  '"jdbc:postgresql://HOST:PORT/DATABASE", "jdbc:mysql://HOST:PORT/DATABASE", "jdbc:mariadb://HOST:PORT/DATABASE" or "jdbc:sqlite:FILE"';

/**
 * Parses a JDBC URL as the Java drivers of the three databases write it (MySQL Connector/J, MariaDB Connector/J, pgJDBC).
 * Parameters that only a Java driver knows are listed in `ignored`. Messages never repeat the URL, which may hold a password.
 */
export function parseJdbcUrl(settings: JdbcSettings): JdbcParse {
  const url = settings.jdbcUrl?.trim();
  if (url === undefined || url === '') {
    return { target: { dialect: 'sqlite', file: DEFAULT_SQLITE_FILE }, ignored: [] };
  }
  const problem = (message: string): JdbcParse => ({ problems: [{ field: URL_FIELD, message }] });
  const scheme = /^jdbc:([a-z0-9+]+):/i.exec(url);
  if (scheme?.[1] === undefined) return problem(`is not a JDBC URL; write ${forms}`);
  const name = scheme[1].toLowerCase();
  const rest = url.slice(scheme[0].length);
  if (name === 'sqlite') {
    const file = (rest.split('?')[0] ?? '').replace(/^file:/, '');
    return file === ''
      ? problem('names no file; write "jdbc:sqlite:FILE", e.g. "jdbc:sqlite:data/gateway.db"')
      : { target: { dialect: 'sqlite', file }, ignored: [] };
  }
  if (name !== 'mysql' && name !== 'mariadb' && name !== 'postgresql') {
    return problem(`names the database "${name}", which is not supported; write ${forms}`);
  }
  return parseServer(name, rest, settings);
}

function parseServer(name: 'mysql' | 'mariadb' | 'postgresql', rest: string, settings: JdbcSettings): JdbcParse {
  const problems: Problem[] = [];
  const add = (message: string) => problems.push({ field: URL_FIELD, message });
  const dialect = name === 'postgresql' ? 'postgresql' : 'mysql';
  const mark = rest.indexOf('?');
  const location = mark < 0 ? rest : rest.slice(0, mark);
  const parameters = new Map<string, string>();
  for (const pair of mark < 0 ? [] : rest.slice(mark + 1).split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const key = equals < 0 ? pair : pair.slice(0, equals);
    parameters.set(key.toLowerCase(), decode(equals < 0 ? '' : pair.slice(equals + 1), add));
  }
  let authority = '';
  let path = location;
  const mode = /^([a-z-]+):(?=\/\/)/i.exec(location)?.[1]?.toLowerCase() ?? null;
  if (mode !== null && (dialect === 'postgresql' || !hostModes.has(mode))) {
    add(
      `has the unknown word "${mode}:" before the hosts; write ${[...hostModes].map((word) => `${word}:`).join(', ')} or none`,
    );
  }
  const address = mode === null ? location : location.slice(mode.length + 1);
  if (address.startsWith('//')) {
    const slash = address.indexOf('/', 2);
    authority = slash < 0 ? address.slice(2) : address.slice(2, slash);
    path = slash < 0 ? '' : address.slice(slash + 1);
  } else if (dialect === 'mysql') {
    add(`has no "//" before the host; write "jdbc:${name}://HOST:PORT/DATABASE"`);
  } else {
    path = location.replace(/^\//, '');
  }
  const used = new Set<string>();
  const take = (...keys: string[]): string | undefined => {
    let value: string | undefined;
    for (const key of keys) {
      used.add(key);
      value ??= parameters.get(key);
    }
    return value;
  };
  const listed = parseHosts(authority, dialect === 'mysql' ? 3306 : 5432, add);
  // All that writes goes to the source, and the gateway writes: replicas are of no use to it.
  const hosts = mode === 'replication' ? listed.slice(0, 1) : listed;
  const isPrimary = dialect === 'postgresql' && primaryOnly(take('targetservertype') ?? 'any', add);
  const user = settings.user ?? take('user') ?? null;
  const password = settings.password ?? take('password') ?? null;
  take('user');
  take('password');
  const database = decode(path, add) || (dialect === 'postgresql' ? (user ?? '') : '');
  if (database === '') add(`names no database; write "jdbc:${name}://HOST:PORT/DATABASE"`);
  const tls = dialect === 'mysql' ? mysqlTls(take, add) : postgresqlTls(take, add);
  const schemas = dialect === 'postgresql' ? list(take('currentschema')) : [];
  const unit = dialect === 'postgresql' ? 1000 : 1;
  const connectTimeoutMs = timeout('connectTimeout', take('connecttimeout'), unit, add);
  const queryTimeoutMs = timeout('socketTimeout', take('sockettimeout'), unit, add);
  if (problems.length > 0) return { problems };
  const target: ServerTarget = {
    ...{ dialect, hosts, isPrimary, database, user, password, tls, schemas },
    ...{ connectTimeoutMs, queryTimeoutMs },
  };
  return { target, ignored: [...parameters.keys()].filter((key) => !used.has(key)) };
}

type Add = (message: string) => void;
type Take = (...keys: string[]) => string | undefined;

function decode(text: string, add: Add): string {
  try {
    return decodeURIComponent(text);
  } catch {
    add('has a "%" that is not followed by two hexadecimal digits; write a literal "%" as "%25"');
    return text;
  }
}

function list(text: string | undefined): readonly string[] {
  return (text ?? '').split(',').flatMap((part) => {
    const name = part.trim().replace(/^"(.*)"$/, '$1');
    return name === '' ? [] : [name];
  });
}

/** Words before the hosts of MySQL and MariaDB that say how one is chosen. */
const hostModes: ReadonlySet<string> = new Set(['loadbalance', 'replication', 'failover', 'sequential']);

const MAX_HOSTS = 32;

/** Hosts between commas; each `HOST:PORT`, `address=(host=HOST)(port=PORT)` or `(host=HOST,port=PORT)`. */
function parseHosts(authority: string, defaultPort: number, add: Add): readonly DatabaseHost[] {
  if (authority.includes('@')) {
    add('has a user before the host; set `dataStore.user` and `dataStore.password`');
    return [];
  }
  const texts = authority.split(/,(?![^(]*\))/);
  if (texts.length > MAX_HOSTS) add(`lists more than ${MAX_HOSTS} hosts`);
  return texts.slice(0, MAX_HOSTS).map((text) => {
    const isKeyed = /^(?:address=)?\(.*\)$/i.test(text);
    return parseHost(isKeyed ? keyedHost(text, add) : text, defaultPort, add);
  });
}

function keyedHost(text: string, add: Add): string {
  const parts = new Map(
    [...text.matchAll(/[(,]\s*([a-z]+)\s*=\s*([^(),]*)/gi)].map(([, key = '', value = '']) => [
      key.toLowerCase(),
      value.trim(),
    ]),
  );
  if (parts.has('user') || parts.has('password')) {
    add('has a user or password for one host; set `dataStore.user` and `dataStore.password`');
  }
  const port = parts.get('port');
  return `${parts.get('host') ?? ''}${port === undefined ? '' : `:${port}`}`;
}

/** True for pgJDBC's `primary` and `preferPrimary`: the gateway writes, and a server that only reads is of no use to it. */
function primaryOnly(kind: string, add: Add): boolean {
  if (/^(?:primary|master|preferPrimary)$/i.test(kind)) return true;
  if (/^(?:prefer)?(?:secondary|slave)$/i.test(kind)) {
    add(`has targetServerType=${kind}, which names servers that take no writes; write primary, as the gateway writes`);
  } else if (kind.toLowerCase() !== 'any') add('has an unknown targetServerType; use any or primary');
  return false;
}

function parseHost(authority: string, defaultPort: number, add: Add): DatabaseHost {
  const parts = /^(\[[^\]]*\]|[^:]*)(?::(.*))?$/.exec(authority);
  const host = (parts?.[1] ?? '').replace(/^\[(.*)\]$/, '$1') || 'localhost';
  const port = parts?.[2] === undefined || parts[2] === '' ? defaultPort : Number(parts[2]);
  if (parts === null || !/^[A-Za-z0-9._:%-]+$/.test(host)) add('has no valid host name');
  else if (!Number.isInteger(port) || port < 1 || port > 65_535) add('has a port that is no number from 1 to 65535');
  return { host, port };
}

function timeout(name: string, text: string | undefined, unit: number, add: Add): number | null {
  if (text === undefined || text === '0') return null;
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value * unit;
  add(`has ${name} that is no positive number`);
  return null;
}

function authority(file: string | undefined, parameter: string, add: Add): string | null {
  if (file === undefined || file === '') return null;
  try {
    return readFileSync(file.replace(/^file:/, ''), 'utf8');
  } catch {
    add(`has ${parameter} naming a file that cannot be read`);
    return null;
  }
}

function mysqlTls(take: Take, add: Add): DatabaseTls | null {
  const ca = authority(take('serversslcert'), 'serverSslCert', add);
  const mode = take('sslmode')?.toLowerCase().replace('_', '-');
  const useSsl = take('usessl');
  const verifies = take('verifyservercertificate') === 'true';
  const required = take('requiressl') === 'true';
  if (take('trustcertificatekeystoreurl') !== undefined) {
    add('has trustCertificateKeyStoreUrl, a Java key store; write the authority as PEM and name it in serverSslCert');
  }
  // Connector/J before 8: useSSL, requireSSL, verifyServerCertificate. Without any of them: clear text.
  if (mode === undefined) return useSsl === 'true' || required ? { verify: verifies, verifyHost: false, ca } : null;
  const modes = {
    ...{ disabled: null, disable: null, preferred: null, required: ENCRYPTED, trust: ENCRYPTED },
    ...{ 'verify-ca': VERIFIED, 'verify-identity': IDENTIFIED, 'verify-full': IDENTIFIED },
  };
  return tlsOf(mode, modes, ca, () =>
    add('has an unknown sslMode; use DISABLED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY'),
  );
}

const ENCRYPTED = { verify: false, verifyHost: false };
const VERIFIED = { verify: true, verifyHost: false };
const IDENTIFIED = { verify: true, verifyHost: true };

type Modes = Readonly<Record<string, Omit<DatabaseTls, 'ca'> | null>>;

function tlsOf(mode: string, modes: Modes, ca: string | null, reject: () => void): DatabaseTls | null {
  const tls = Object.hasOwn(modes, mode) ? modes[mode] : undefined;
  if (tls === undefined) reject();
  return tls == null ? null : { ...tls, ca };
}

function postgresqlTls(take: Take, add: Add): DatabaseTls | null {
  const ca = authority(take('sslrootcert'), 'sslrootcert', add);
  const ssl = take('ssl');
  const mode = take('sslmode')?.toLowerCase() ?? (ssl === 'true' || ssl === '' ? 'verify-full' : undefined);
  if (take('sslcert') !== undefined || take('sslkey') !== undefined) {
    add('has sslcert or sslkey: client certificates are not supported; use a password');
  }
  if (mode === undefined) return null;
  const modes = {
    ...{ disable: null, allow: null, prefer: null, require: ENCRYPTED },
    ...{ 'verify-ca': VERIFIED, 'verify-full': IDENTIFIED },
  };
  return tlsOf(mode, modes, ca, () => add('has an unknown sslmode; use disable, require, verify-ca or verify-full'));
}

/** Name of the database on its server; null: a file, or an URL that is not valid. */
export function databaseName(settings: JdbcSettings): string | null {
  const parsed = parseJdbcUrl(settings);
  return 'target' in parsed && parsed.target.dialect !== 'sqlite' ? parsed.target.database : null;
}
