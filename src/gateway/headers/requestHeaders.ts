import type { IncomingMessage } from 'node:http';
import { BlockList, isIP, type Socket } from 'node:net';
import { firstHeader, type HeaderFields, headerFields } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { cookieValue, withoutCookies } from './cookies.ts';

export type TrustPeer = (address: string) => boolean;

/**
 * Returns the trust decision (docs/routing.md#what-changes-on-the-way-and-what-does-not).
 * @param processForwarded `http-server.process-forwarded`: every peer is trusted
 * @param trustedProxies valid addresses and networks in CIDR form
 */
export function trustPeers(processForwarded: boolean, trustedProxies: readonly string[]): TrustPeer {
  if (processForwarded) return () => true;
  if (trustedProxies.length === 0) return () => false;
  const list = new BlockList();
  for (const entry of trustedProxies) {
    const [address = '', prefix] = entry.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(prefix), family);
  }
  return (address) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** An address without the IPv4-mapped form of dual-stack sockets. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return 'unknown';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** Address of the client and the gateway's address as the client named it, behind trusted proxies. */
export interface ClientView {
  readonly address: string;
  readonly scheme: 'http' | 'https';
  /** Host that the client named, without port. */
  readonly host: string;
  readonly port: number;
}

/** The forwarded headers of an incoming request; values of repeated lines joined by ", ". */
interface IncomingForwarded {
  readonly for?: string | undefined;
  readonly proto?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: string | undefined;
  readonly forwarded?: string | undefined;
}

/** The view of a client that is the peer of a connection. */
function directView({ peer: address, scheme }: Connection, socket: Socket, hostHeader: string | undefined): ClientView {
  const named = hostHeader === undefined ? null : splitHost(hostHeader);
  if (named !== null) return { address, scheme, host: named.host, port: named.port ?? defaultPort(scheme) };
  return { address, scheme, host: plainAddress(socket.localAddress), port: socket.localPort ?? 0 };
}

/**
 * The view behind a trusted proxy: `Forwarded` (RFC 7239) before `X-Forwarded-*`, as engines read them; in a chain the
 * first element is the client's.
 */
function forwardedView(
  connection: Connection,
  socket: Socket,
  hostHeader: string | undefined,
  incoming: IncomingForwarded,
): ClientView {
  const standard = incoming.forwarded === undefined ? null : parseForwarded(incoming.forwarded);
  const address = standard?.for ?? addressOf(first(incoming.for)) ?? connection.peer;
  const proto = (standard?.proto ?? first(incoming.proto))?.toLowerCase();
  const scheme = proto === 'https' || proto === 'http' ? proto : connection.scheme;
  const hostText = standard?.host ?? first(incoming.host) ?? hostHeader;
  const named = hostText === undefined ? null : splitHost(hostText);
  const statedPort = portOf(standard === null ? first(incoming.port) : undefined);
  return {
    address,
    scheme,
    host: named?.host ?? plainAddress(socket.localAddress),
    port: statedPort ?? named?.port ?? (named === null ? (socket.localPort ?? 0) : defaultPort(scheme)),
  };
}

function defaultPort(scheme: 'http' | 'https'): number {
  return scheme === 'https' ? 443 : 80;
}

function first(list: string | undefined): string | undefined {
  if (list === undefined) return undefined;
  const comma = list.indexOf(',');
  const value = (comma < 0 ? list : list.slice(0, comma)).trim();
  return value === '' ? undefined : value;
}

function portOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return port >= 1 && port <= 65_535 ? port : undefined;
}

/** `host`, `host:port`, `[::1]:port`; null if invalid. */
function splitHost(text: string): { host: string; port: number | undefined } | null {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[^\s:/@,;"[\]]+)(?::(\d*))?$/.exec(text);
  return match?.[1] === undefined ? null : { host: match[1], port: portOf(match[2]) };
}

/** An address of X-Forwarded-For or `for=` without port and brackets. */
function addressOf(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(text);
  if (bracketed?.[1] !== undefined) return bracketed[1];
  const withPort = /^([^:]+):\d+$/.exec(text);
  return withPort?.[1] ?? text;
}

/** A node identifier of RFC 7239: IPv6 addresses are bracketed and quoted. */
function node(address: string): string {
  if (address.includes(':')) return `"[${address.replace(/[[\]"]/g, '')}]"`;
  return /^[\w.-]+$/.test(address) ? address : 'unknown';
}

/** The first element of a `Forwarded` header; null without usable values. */
function parseForwarded(text: string): { for?: string; proto?: string; host?: string } | null {
  const element: { for?: string; proto?: string; host?: string } = {};
  const pair = /([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*([;,]|$)/y;
  let position = /^\s*/.exec(text)?.[0].length ?? 0;
  for (;;) {
    pair.lastIndex = position;
    const match = pair.exec(text);
    if (match === null) break;
    const value = match[2]?.replace(/\\(.)/g, '$1') ?? match[3] ?? '';
    const name = match[1]?.toLowerCase();
    if (name === 'for') {
      const address = addressOf(value);
      if (address !== undefined && address !== '') element.for = address;
    } else if (name === 'proto') element.proto = value;
    else if (name === 'host') element.host = value;
    if (match[4] !== ';') break;
    position = pair.lastIndex + (/^\s*/.exec(text.slice(pair.lastIndex))?.[0].length ?? 0);
  }
  return Object.keys(element).length === 0 ? null : element;
}

/** Handling of a client's header on the way to a cluster. */
const Action = { copy: 0, drop: 1, connection: 2, cookie: 3, acceptEncoding: 4, forwarded: 5, host: 6 } as const;
type Action = (typeof Action)[keyof typeof Action];

/** Hop-by-hop headers (RFC 9110 §7.6.1), headers of each connection, and headers that Node handled. */
export const hopByHop = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'expect',
  'http2-settings',
];

const MAX_KNOWN_NAMES = 1000;
const MAX_KNOWN_HOSTS = 1000;
/** Browsers store attributes of cookies up to 1024 characters (RFC 6265bis §5.6). */
const MAX_PREFIX = 1000;
/** A path that needs no quoting in a cookie attribute. */
const plainPath = /^(?:\/[\w.~%-]+)*$/;

export interface RequestHeaderOptions {
  readonly names: ProductNames;
  /** Random name of this process in `Via`. */
  readonly viaToken: string;
  /** `routing.forwardedHeadersEnabled` */
  readonly forwardedHeadersEnabled: boolean;
  readonly trustPeer: TrustPeer;
  /** True if the gateway writes trace headers; else they are forwarded unchanged. */
  readonly tracing: boolean;
  /** Header in which proxies pass certificates (`server.clientCertificateHeader`), which is not forwarded; or null. */
  readonly certificateHeader: string | null;
  /** The gateway's cookies, never sent to a cluster (docs/authentication.md#sessions). */
  readonly ownCookies: readonly string[];
}

interface Connection {
  readonly peer: string;
  readonly trusted: boolean;
  readonly scheme: 'http' | 'https';
}

/** Builds the headers for a cluster (docs/routing.md#what-changes-on-the-way-and-what-does-not). */
export class RequestHeaders {
  readonly #options: RequestHeaderOptions;
  readonly #actions = new Map<string, Action | readonly string[]>();
  readonly #connections = new WeakMap<Socket, Connection>();
  /** Host and port by scheme and `Host`: equal for nearly all requests. */
  readonly #hosts = new Map<string, ClientView>();
  readonly #receivedBy: string;
  readonly #certificateHeader: string | undefined;
  readonly #ownCookies: ReadonlySet<string>;

  constructor(options: RequestHeaderOptions) {
    this.#options = options;
    this.#receivedBy = `${options.names.gateway} (${options.viaToken})`;
    const { certificateHeader, names } = options;
    this.#certificateHeader = certificateHeader === null ? undefined : names.ownHeader(certificateHeader).toLowerCase();
    this.#ownCookies = new Set(options.ownCookies);
  }

  /** Address of the client, behind trusted proxies. */
  clientOf(request: IncomingMessage): ClientView {
    const connection = this.#connection(request.socket);
    const host = firstHeader(request.rawHeaders, 'host');
    if (connection.trusted) {
      const incoming = forwardedOf(request);
      if (incoming !== null) return forwardedView(connection, request.socket, host, incoming);
    }
    const view = this.#directView(request, connection, host);
    return view.address === connection.peer ? view : { ...view, address: connection.peer };
  }

  /** Path removed by a trusted proxy (`X-Forwarded-Prefix`), without a trailing slash; may be empty. */
  prefixOf(request: IncomingMessage): string {
    if (!this.#connection(request.socket).trusted) return '';
    const prefix = firstHeader(request.rawHeaders, 'x-forwarded-prefix')?.replace(/\/+$/, '') ?? '';
    return prefix.length <= MAX_PREFIX && plainPath.test(prefix) ? prefix : '';
  }

  /** The view without a trusted proxy; its address may be another client's: hosts are shared. */
  #directView(request: IncomingMessage, connection: Connection, host: string | undefined): ClientView {
    const hostHeader = host ?? '';
    const key = connection.scheme === 'https' ? `s${hostHeader}` : hostHeader;
    let view = this.#hosts.get(key);
    if (view === undefined) {
      view = directView(connection, request.socket, host);
      if (this.#hosts.size >= MAX_KNOWN_HOSTS) this.#hosts.clear();
      if (hostHeader !== '') this.#hosts.set(key, view);
    }
    return view;
  }

  /**
   * Headers for the cluster, names and values in turn, without `Host` (the HTTP client writes it).
   * @param identity true to request a response without Content-Encoding, so that the query id can be read from it
   * @param extra headers set by rules: they replace headers of the same name, in any letter case; or null
   */
  forCluster(
    request: IncomingMessage,
    identity: boolean,
    extra: Readonly<Record<string, string>> | null,
  ): { readonly lines: string[]; readonly view: ClientView | null } {
    const raw = request.rawHeaders;
    const lines: string[] = [];
    const connection = this.#connection(request.socket);
    let named: Set<string> | null = null;
    let host: string | undefined;
    let sawForwarded = false;
    const set = extra === null ? null : this.#setLines(extra);
    for (let index = 0; index < raw.length; index += 2) {
      const name = raw[index] as string;
      const value = raw[index + 1] as string;
      if (set?.has(name.toLowerCase()) === true) continue;
      const action = this.#actions.get(name) ?? this.#learn(name);
      if (typeof action === 'object') {
        for (const clusterName of action) lines.push(clusterName, value);
        continue;
      }
      switch (action) {
        case Action.copy:
          lines.push(name, value);
          break;
        case Action.connection:
          if (value === 'keep-alive' || value === 'Keep-Alive' || value === 'close') break;
          named = namedByConnection(value, named, this.#options.names);
          break;
        case Action.cookie: {
          const rest = withoutCookies(value, this.#ownCookies);
          if (rest !== '') lines.push(name, cookiesForCluster(rest, this.#options.names));
          break;
        }
        case Action.acceptEncoding:
          if (!identity) lines.push(name, value);
          break;
        case Action.host:
          host ??= value;
          break;
        case Action.forwarded:
          sawForwarded = true;
          // Ours are written below; others of the family (-Prefix, -Server) are a trusted proxy's own business.
          if (connection.trusted && this.#options.forwardedHeadersEnabled && !isRewritten(name))
            lines.push(name, value);
          break;
        default:
          break;
      }
    }
    const forwarded = named === null ? lines : linesWithout(lines, named);
    forwarded.push('Via', `HTTP/${request.httpVersion} ${this.#receivedBy}`);
    const view = this.#options.forwardedHeadersEnabled
      ? this.#pushForwarded(forwarded, request, connection, host, sawForwarded)
      : null;
    if (set !== null) {
      for (const [name, value] of set.values()) {
        const action = this.#actions.get(name) ?? this.#learn(name);
        for (const clusterName of typeof action === 'object' ? action : [name]) forwarded.push(clusterName, value);
      }
    }
    return { lines: forwarded, view };
  }

  /** Headers set by rules, by lower-case name under the configured product; the last of a name counts. */
  #setLines(extra: Readonly<Record<string, string>>): ReadonlyMap<string, readonly [string, string]> {
    const set = new Map<string, readonly [string, string]>();
    for (const [name, value] of Object.entries(extra)) {
      const own = this.#options.names.ownHeader(name);
      set.set(own.toLowerCase(), [own, value]);
    }
    return set;
  }

  /**
   * Adds headers that describe the client. `Forwarded` is only written if one came from a trusted proxy, so that both are
   * consistent.
   */
  #pushForwarded(
    lines: string[],
    request: IncomingMessage,
    connection: Connection,
    hostLine: string | undefined,
    sawForwarded: boolean,
  ): ClientView {
    const { peer } = connection;
    const incoming = sawForwarded && connection.trusted ? forwardedOf(request) : null;
    const view =
      incoming === null
        ? this.#directView(request, connection, hostLine)
        : forwardedView(connection, request.socket, hostLine, incoming);
    const { scheme, address, host, port } = view;
    const list = incoming?.for ?? '';
    const chain = incoming !== null && list === '' && address !== peer ? address : list;
    const addresses = chain === '' ? peer : `${chain}, ${peer}`;
    lines.push('X-Forwarded-For', addresses, 'X-Forwarded-Proto', scheme);
    lines.push('X-Forwarded-Host', host, 'X-Forwarded-Port', String(port));
    if (incoming?.forwarded === undefined) return view;
    const elements = addresses.split(',').map((each) => `for=${node(each.trim())}`);
    elements[0] += `;host="${host}:${port}";proto=${scheme}`;
    lines.push('Forwarded', elements.join(', '));
    return view;
  }

  #connection(socket: Socket): Connection {
    let connection = this.#connections.get(socket);
    if (connection === undefined) {
      const peer = plainAddress(socket.remoteAddress);
      connection = {
        peer,
        trusted: this.#options.trustPeer(peer),
        scheme: 'encrypted' in socket && socket.encrypted === true ? 'https' : 'http',
      };
      this.#connections.set(socket, connection);
    }
    return connection;
  }

  #learn(name: string): Action | readonly string[] {
    const lower = name.toLowerCase();
    const { names } = this.#options;
    const action =
      lower === 'connection'
        ? Action.connection
        : hopByHop.includes(lower) ||
            lower === this.#certificateHeader ||
            (this.#options.tracing && isTraceHeader(lower))
          ? Action.drop
          : lower === 'host'
            ? Action.host
            : lower === 'cookie'
              ? Action.cookie
              : lower === 'accept-encoding'
                ? Action.acceptEncoding
                : lower === 'forwarded' || lower.startsWith('x-forwarded-')
                  ? Action.forwarded
                  : names.isProtocolHeader(lower)
                    ? names.clusterNames(name)
                    : Action.copy;
    if (this.#actions.size < MAX_KNOWN_NAMES) this.#actions.set(name, action);
    return action;
  }
}

function isTraceHeader(lower: string): boolean {
  return lower === 'traceparent' || lower === 'tracestate';
}

/** Headers that describe the client, which the gateway replaces. */
const forwardedParts: ReadonlyMap<string, keyof IncomingForwarded> = new Map([
  ['x-forwarded-for', 'for'],
  ['x-forwarded-proto', 'proto'],
  ['x-forwarded-host', 'host'],
  ['x-forwarded-port', 'port'],
  ['forwarded', 'forwarded'],
]);

function isRewritten(name: string): boolean {
  return forwardedParts.has(name.toLowerCase());
}

/** Forwarded headers of a request; list elements in order. */
function forwardedOf({ rawHeaders }: IncomingMessage): IncomingForwarded | null {
  let incoming: { -readonly [part in keyof IncomingForwarded]: string } | null = null;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    const part = forwardedParts.get(name) ?? forwardedParts.get(name.toLowerCase());
    if (part === undefined) continue;
    const value = rawHeaders[index + 1] as string;
    incoming ??= {};
    const before = incoming[part];
    incoming[part] = before === undefined ? value : `${before}, ${value}`;
  }
  return incoming;
}

/** Headers that stay even if `Connection` names them: the message needs them, or the gateway depends on them. */
const endToEnd: ReadonlySet<string> = new Set(['content-length', 'content-type', 'authorization', 'cookie']);

/** Names that `Connection` makes hop-by-hop, lower-case, or null. */
function namedByConnection(
  value: string,
  before: Set<string> | null,
  { isProtocolHeader }: ProductNames,
): Set<string> | null {
  const names = before ?? new Set<string>();
  for (const token of value.toLowerCase().split(',')) {
    const name = token.trim();
    if (name !== '' && !endToEnd.has(name) && !isProtocolHeader(name)) names.add(name);
  }
  return names;
}

/** The lines whose names in lower case are not in a set; names and values in turn. */
export function linesWithout(lines: readonly string[], names: ReadonlySet<string>): string[] {
  const rest: string[] = [];
  for (let index = 0; index < lines.length; index += 2) {
    const name = lines[index] as string;
    if (!names.has(name.toLowerCase())) rest.push(name, lines[index + 1] as string);
  }
  return rest;
}

/** Header lines of a request as the gateway reads them. */
export interface ClientHeaders {
  readonly fields: HeaderFields;
  /** Prefixes in lower case, such as `x-trino-`; empty without such headers. */
  readonly prefixes: readonly string[];
  /** Error message for a header or cookie with different values under two names, or null. */
  readonly conflict: string | null;
}

interface LineName {
  readonly own: string;
  readonly key: string;
  /** Number of the prefix of a protocol header; -1 for all others. */
  readonly prefix: number;
}

/** Clients send few names, and short ones. */
const MAX_CACHED_NAMES = 1000;
const tokenCookie = /-(?:UI|ID)-Token=/;

/** Reads the headers of the engine protocol under all of their names (docs/protocol.md#product-names). */
export class ProtocolHeaders {
  readonly #names: ProductNames;
  readonly #cache = new Map<string, LineName>();
  /** By bits of their numbers. */
  readonly #prefixes: readonly (readonly string[])[];

  constructor(names: ProductNames) {
    this.#names = names;
    const { headerPrefixes: all } = names;
    this.#prefixes = Array.from({ length: 2 ** all.length }, (_, bits) =>
      all.filter((_prefix, index) => (bits & (1 << index)) !== 0),
    );
  }

  /**
   * Renames headers of the engine protocol to those of the configured product, so that each is read in one place.
   * Merges equal values under two names.
   * @param lines names and values in turn; unchanged if there is a conflict
   */
  normalize(lines: string[]): ClientHeaders {
    const read = new Map<string, string[]>();
    let bits = 0;
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const { key, prefix } = this.#cache.get(name) ?? this.#learn(name);
      if (prefix >= 0) bits |= 1 << prefix;
      const values = read.get(key);
      if (values === undefined) read.set(key, [lines[index + 1] as string]);
      else values.push(lines[index + 1] as string);
    }
    let fields: HeaderFields = read;
    let conflict: string | null = null;
    // Nearly all clients use one name.
    if ((bits & (bits - 1)) !== 0) {
      conflict = this.#merge(lines);
      fields = headerFields(lines);
    } else if (bits > 1) {
      for (let index = 0; index < lines.length; index += 2) lines[index] = this.#nameOf(lines[index] as string).own;
    }
    const cookies = read.get('cookie');
    if (conflict === null && cookies?.some((line) => tokenCookie.test(line))) conflict = this.#cookieConflict(cookies);
    return { prefixes: this.#prefixes[bits] ?? [], conflict, fields };
  }

  #nameOf(name: string): LineName {
    return this.#cache.get(name) ?? this.#learn(name);
  }

  #learn(name: string): LineName {
    const lower = name.toLowerCase();
    const prefix = this.#names.headerPrefixes.findIndex((each) => lower.startsWith(each));
    const own = prefix < 0 ? name : this.#names.ownHeader(name);
    const line = { own, key: own.toLowerCase(), prefix };
    if (this.#cache.size < MAX_CACHED_NAMES && name.length < 256) this.#cache.set(name, line);
    return line;
  }

  /** Renames the lines of a client that uses several names. @returns an error message; null if no values differ */
  #merge(lines: string[]): string | null {
    const fields = new Map<string, Map<number, { readonly name: string; readonly values: string[] }>>();
    const merged: string[] = [];
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      const value = lines[index + 1] as string;
      const field = this.#nameOf(name);
      if (field.prefix < 0) {
        merged.push(name, value);
        continue;
      }
      const { key } = field;
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

  #cookieConflict(cookies: readonly string[]): string | null {
    const { uiTokenCookies, idTokenCookies } = this.#names;
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
