/** Address of the client and the gateway's address as the client named it, behind trusted proxies. */
export interface ClientView {
  readonly address: string;
  readonly scheme: 'http' | 'https';
  /** Host that the client named, without port. */
  readonly host: string;
  readonly port: number;
}

/** The forwarded headers of an incoming request; values of repeated lines joined by ", ". */
export interface IncomingForwarded {
  readonly for?: string | undefined;
  readonly proto?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: string | undefined;
  readonly forwarded?: string | undefined;
}

export interface DirectView {
  readonly peer: string;
  readonly scheme: 'http' | 'https';
  /** `Host` as sent; undefined with HTTP/1.0. */
  readonly hostHeader: string | undefined;
  readonly localAddress: string;
  readonly localPort: number;
}

export function directView(direct: DirectView): ClientView {
  const named = direct.hostHeader === undefined ? null : splitHost(direct.hostHeader);
  const { peer: address, scheme, localAddress, localPort } = direct;
  if (named === null) return { address, scheme, host: localAddress, port: localPort };
  return { address, scheme, host: named.host, port: named.port ?? defaultPort(scheme) };
}

/**
 * The view behind a trusted proxy: `Forwarded` (RFC 7239) before `X-Forwarded-*`, as engines read them; in a chain the
 * first element is the client's.
 */
export function forwardedView(direct: DirectView, incoming: IncomingForwarded): ClientView {
  const standard = incoming.forwarded === undefined ? null : parseForwarded(incoming.forwarded);
  const address = standard?.for ?? addressOf(first(incoming.for)) ?? direct.peer;
  const proto = (standard?.proto ?? first(incoming.proto))?.toLowerCase();
  const scheme = proto === 'https' || proto === 'http' ? proto : direct.scheme;
  const hostText = standard?.host ?? first(incoming.host) ?? direct.hostHeader;
  const named = hostText === undefined ? null : splitHost(hostText);
  const statedPort = portOf(standard === null ? first(incoming.port) : undefined);
  return {
    address,
    scheme,
    host: named?.host ?? direct.localAddress,
    port: statedPort ?? named?.port ?? (named === null ? direct.localPort : defaultPort(scheme)),
  };
}

/**
 * Adds headers that describe the client to a cluster. `Forwarded` is only written if one came from a trusted proxy, so that
 * both are consistent.
 * @param addresses of the client and of the proxies up to the peer
 */
export function pushForwarded(
  lines: string[],
  { scheme, host, port }: ClientView,
  addresses: string,
  withForwarded: boolean,
): void {
  lines.push('X-Forwarded-For', addresses, 'X-Forwarded-Proto', scheme);
  lines.push('X-Forwarded-Host', host, 'X-Forwarded-Port', String(port));
  if (!withForwarded) return;
  const elements = addresses.split(',').map((address) => `for=${node(address.trim())}`);
  elements[0] += `;host="${host}:${port}";proto=${scheme}`;
  lines.push('Forwarded', elements.join(', '));
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
