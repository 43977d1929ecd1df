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
