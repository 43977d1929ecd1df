import type { ProductNames } from '../../model/names.ts';
import { headerValues, isHeader } from '../../model/rawHeaders.ts';

export interface ClientNames {
  /** Prefixes in lower case, such as `x-trino-`; empty without such headers. */
  readonly prefixes: readonly string[];
  /** Error message for a header or cookie with different values under two names, or null. */
  readonly conflict: string | null;
}

interface ProtocolName {
  readonly prefix: number;
  readonly own: string;
}

/** Clients send few names; others are not cached. */
const MAX_CACHED_NAMES = 1000;
const none: ClientNames = { prefixes: [], conflict: null };
const tokenCookie = /-(?:UI|ID)-Token=/;

/** Reads the headers of the engine protocol under all of their names (docs/protocol.md#product-names). */
export class ProtocolHeaders {
  readonly #names: ProductNames;
  readonly #cache = new Map<string, ProtocolName | null>();
  readonly #clients: readonly ClientNames[];

  constructor(names: ProductNames) {
    this.#names = names;
    const { headerPrefixes: all } = names;
    this.#clients = Array.from({ length: 2 ** all.length }, (_, bits) =>
      bits === 0 ? none : { prefixes: all.filter((_prefix, index) => (bits & (1 << index)) !== 0), conflict: null },
    );
  }

  /**
   * Renames headers of the engine protocol to those of the configured product, so that each is read in one place.
   * Merges equal values under two names.
   * @param lines names and values in turn; unchanged if there is a conflict
   */
  normalize(lines: string[]): ClientNames {
    let bits = 0;
    let hasTokens = false;
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const field = this.#nameOf(name);
      if (field !== null) bits |= 1 << field.prefix;
      else if (isHeader(name, 'cookie') && tokenCookie.test(lines[index + 1] as string)) hasTokens = true;
    }
    const client = this.#clients[bits] as ClientNames;
    // Nearly all clients use one name.
    if ((bits & (bits - 1)) !== 0) {
      const conflict = this.#merge(lines);
      if (conflict !== null) return { ...client, conflict };
    } else if (bits > 1) {
      for (let index = 0; index < lines.length; index += 2) {
        const field = this.#nameOf(lines[index] as string);
        if (field !== null) lines[index] = field.own;
      }
    }
    const conflict = hasTokens ? this.#cookieConflict(lines) : null;
    return conflict === null ? client : { ...client, conflict };
  }

  #nameOf(name: string): ProtocolName | null {
    // 'x' or 'X', and '-'.
    if ((name.charCodeAt(0) | 32) !== 120 || name.charCodeAt(1) !== 45) return null;
    let field = this.#cache.get(name);
    if (field === undefined) {
      const key = name.toLowerCase();
      const prefix = this.#names.headerPrefixes.findIndex((each) => key.startsWith(each));
      field = prefix < 0 ? null : { prefix, own: this.#names.ownHeader(name) };
      if (this.#cache.size < MAX_CACHED_NAMES) this.#cache.set(name, field);
    }
    return field;
  }

  /** Renames the lines of a client that uses several names. @returns an error message; null if no values differ */
  #merge(lines: string[]): string | null {
    const fields = new Map<string, Map<number, { readonly name: string; readonly values: string[] }>>();
    const merged: string[] = [];
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const value = lines[index + 1] as string;
      const field = this.#nameOf(name);
      if (field === null) {
        merged.push(name, value);
        continue;
      }
      const key = field.own.toLowerCase();
      const byPrefix = fields.get(key) ?? new Map<number, { readonly name: string; readonly values: string[] }>();
      fields.set(key, byPrefix);
      const lineValues = byPrefix.get(field.prefix);
      if (lineValues === undefined) byPrefix.set(field.prefix, { name, values: [value] });
      else lineValues.values.push(value);
      if (byPrefix.keys().next().value === field.prefix) merged.push(field.own, value);
    }
    for (const byPrefix of fields.values()) {
      const [first, ...others] = byPrefix.values();
      const other = others.find(({ values }) => values.join('\n') !== first?.values.join('\n'));
      if (other !== undefined) return conflictMessage('headers', first?.name ?? '', other.name);
    }
    lines.length = 0;
    for (const part of merged) lines.push(part);
    return null;
  }

  #cookieConflict(lines: readonly string[]): string | null {
    const { uiTokenCookies, idTokenCookies } = this.#names;
    const cookies = headerValues(lines, 'cookie');
    for (const names of [uiTokenCookies, idTokenCookies]) {
      const present = names.filter((name) => cookieValue(cookies, name) !== null);
      const [first = ''] = present;
      const other = present.find((name) => cookieValue(cookies, name) !== cookieValue(cookies, first));
      if (other !== undefined) return conflictMessage('cookies', first, other);
    }
    return null;
  }
}

function conflictMessage(what: string, first: string, other: string): string {
  return `The ${what} ${first} and ${other} have different values; send one of them.`;
}

/** The value of a Cookie line for clusters, with the engines' names of cookies that the gateway reads. */
export function cookiesForCluster(line: string, { clusterCookies }: ProductNames): string {
  if (!tokenCookie.test(line)) return line;
  const pairs = line.split(';').flatMap((text) => {
    const pair = text.trim();
    const equals = pair.indexOf('=');
    const names = equals < 0 ? null : clusterCookies(pair.slice(0, equals));
    return names === null ? [pair] : names.map((name) => `${name}${pair.slice(equals)}`);
  });
  return [...new Set(pairs)].join('; ');
}

/**
 * Value of the first cookie with a name in Cookie headers (RFC 6265 §4.2), without quotes.
 * @param name the name, or a test of names
 * @returns null if missing
 */
export function cookieValue(lines: readonly string[], name: string | ((cookie: string) => boolean)): string | null {
  const isMeant = typeof name === 'string' ? (cookie: string) => cookie === name : name;
  for (const line of lines) {
    // A client may send hundreds of thousands of pairs: most lines are skipped, and none is split to a list.
    if (typeof name === 'string' && !line.includes(name)) continue;
    for (let start = 0, end = 0; start < line.length; start = end + 1) {
      const semicolon = line.indexOf(';', start);
      end = semicolon < 0 ? line.length : semicolon;
      const pair = line.slice(start, end);
      const equals = pair.indexOf('=');
      if (equals < 0 || !isMeant(pair.slice(0, equals).trim())) continue;
      const value = pair.slice(equals + 1).trim();
      return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
    }
  }
  return null;
}

/**
 * Removes cookies from a `Cookie` header's value: the gateway's cookies are not forwarded. Returns a value without them
 * unchanged; the pairs are not split to a list, as a client may send hundreds of thousands.
 * @returns the remaining pairs; may be empty
 */
export function withoutCookies(value: string, names: ReadonlySet<string>): string {
  if (!holdsOneOf(value, names)) return value;
  let rest = '';
  let from = 0;
  for (let start = 0; start < value.length; ) {
    const semicolon = value.indexOf(';', start);
    const end = semicolon < 0 ? value.length : semicolon;
    const pair = value.slice(start, end);
    const equals = pair.indexOf('=');
    if (names.has((equals < 0 ? pair : pair.slice(0, equals)).trim())) {
      rest += value.slice(from, start);
      from = end + 1;
    }
    start = end + 1;
  }
  return (rest + value.slice(from)).trim().replace(/;$/, '');
}

function holdsOneOf(value: string, names: ReadonlySet<string>): boolean {
  for (const name of names) if (value.includes(name)) return true;
  return false;
}

/** Names of the gateway's cookies, in lower case and without the prefixes `__Host-` and `__Secure-`. */
export interface OwnCookieNames {
  readonly names: ReadonlySet<string>;
  /** Prefixes of names, such as that of OAuth2 login cookies. */
  readonly prefixes: readonly string[];
}

/**
 * Creates the names for rejecting `Set-Cookie` headers of clusters.
 * @param names as they are set, with or without `__Host-` or `__Secure-`
 * @param prefixes prefixes of further names
 */
export function ownCookieNames(names: readonly string[], prefixes: readonly string[]): OwnCookieNames {
  return { names: new Set(names.map(plainName)), prefixes: prefixes.map(plainName) };
}

/**
 * Characters that a lenient parser may skip in and around a name; matched individually, so that long lines take linear
 * time.
 */
const skipped = /[\s"']/g;

/**
 * True if a `Set-Cookie` line would set, replace or delete one of the gateway's cookies. Parses the name as leniently
 * as any client could: in any letter case, under either prefix, quoted, and as the value of a cookie without a name,
 * which browsers send unchanged (RFC 6265bis §5.7, §5.8.3).
 */
export function setsOwnCookie(line: string, own: OwnCookieNames): boolean {
  const semicolon = line.indexOf(';');
  const pair = (semicolon < 0 ? line : line.slice(0, semicolon)).replace(skipped, '').replace(/^=+/, '');
  const equals = pair.indexOf('=');
  const name = plainName(equals < 0 ? pair : pair.slice(0, equals));
  return own.names.has(name) || own.prefixes.some((prefix) => name.startsWith(prefix));
}

function plainName(name: string): string {
  return name.toLowerCase().replace(/^(?:__(?:host|secure|http|host-http)-)+/, '');
}
