import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import { isIP, type Socket } from 'node:net';
import { GatewayError } from '../../model/errors.ts';
import { firstHeader, isHeader } from '../../model/rawHeaders.ts';
import { namesOneOf, parseHost, type RequestHost } from '../../model/requestHost.ts';
import { splitTarget } from '../../routing/proxiedPaths.ts';
import { endWith, linger } from '../bodies/lastRequest.ts';
import { respond } from '../exchanges/ownResponses.ts';
import type { ClientView } from '../headers/requestHeaders.ts';

/** Limits of the head of a request. */
export interface HeadLimits {
  /** Bytes of request line and header lines. */
  readonly maxHeaderSize: number;
  readonly maxHeaderLines: number;
}

/** The limit of heads over HTTP/2, bytes: its library takes one HEADERS and 8 CONTINUATION frames of 16 kB each. */
export const MAX_HTTP2_HEAD = 9 * 16_384;

const KEY = 'serverConfig."http-server.max-request-header-size"';

/** The message of a rejection of a request for its head (RFC 6585 §5), which the parser has not rejected; null for none. */
export function headFault(
  { rawHeaders, url = '', httpVersionMajor }: Pick<IncomingMessage, 'rawHeaders' | 'url' | 'httpVersionMajor'>,
  { maxHeaderSize, maxHeaderLines }: HeadLimits,
): string | null {
  if (rawHeaders.length > 2 * maxHeaderLines) {
    return `The request has more than ${maxHeaderLines} header lines (server.maxHeaderLines).`;
  }
  if (httpVersionMajor === 1) return null;
  const limit = Math.min(maxHeaderSize, MAX_HTTP2_HEAD);
  // As HTTP/1.1 has them: "name: value\r\n".
  const size = rawHeaders.reduce((sum, text) => sum + text.length + 2, url.length);
  if (size <= limit) return null;
  const key = limit === maxHeaderSize ? KEY : 'the most over HTTP/2; HTTP/1.1 takes more';
  return `Request line and headers are larger than ${limit} bytes (${key}).`;
}

const lastResponse = Symbol('last response');

interface RespondingSocket extends Socket {
  [lastResponse]?: ServerResponse | 'parser error';
}

/** Notes which response is the last one on a connection over HTTP/1.1. */
export function noteLastResponse({ socket }: IncomingMessage, response: ServerResponse): void {
  (socket as RespondingSocket)[lastResponse] = response;
}

/** Error of a connection that Node's parser, or a time limit, aborted. */
interface ConnectionError extends Error {
  readonly code?: string;
}

/**
 * Responds to what the parser of HTTP/1.1 rejects, as Node does by default, and names the limits of heads. A connection that
 * is closed while its client still sends is reset, which can take the response away from the client. So only the gateway's
 * side is ended, and what comes is dropped until the client ends its own (RFC 9112 §9.6).
 */
export function responseParserErrors(
  server: Server | Http2SecureServer,
  { maxHeaderSize, maxHeaderLines }: HeadLimits,
) {
  const tooLarge = `Request line and headers are larger than ${maxHeaderSize} bytes (${KEY}), or have more than ${maxHeaderLines} lines (server.maxHeaderLines).\n`;
  (server as Server).on('clientError', (error: ConnectionError, duplex) => {
    const socket = duplex as RespondingSocket;
    const last = socket[lastResponse];
    if (last === 'parser error') {
      // The parser reports each packet that is dropped, and the end of the client's side.
      if (error.code === 'HPE_INVALID_EOF_STATE' || error.code?.startsWith('HPE_') !== true) socket.destroy();
      return;
    }
    const status = statusOf(error);
    // In the middle of another response it would be taken for a part of that.
    const isResponding = last?.headersSent === true && !last.writableFinished;
    if (status === null || isResponding || !socket.writable) {
      socket.destroy(error);
      return;
    }
    socket[lastResponse] = 'parser error';
    linger(socket, responseText(status, status === 431 ? tooLarge : ''));
  });
}

function statusOf({ code }: ConnectionError): 400 | 408 | 413 | 431 | null {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431;
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413;
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408;
    default:
      // Others are of TLS or of the connection itself.
      return code?.startsWith('HPE_') === true ? 400 : null;
  }
}

function responseText(status: number, message: string): string {
  const body =
    message === ''
      ? ''
      : `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(message)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${body}Connection: close\r\n\r\n${message}`;
}

/** Reason that a request is rejected before its content is read. */
export interface FramingFault {
  readonly status: 400 | 431 | 501 | 505;
  readonly message: string;
}

const versions: FramingFault = { status: 505, message: 'HTTP/1.1 and HTTP/1.0 are spoken here.' };
const hosts: FramingFault = { status: 400, message: 'The request has more than one Host.' };
const oldCoding: FramingFault = { status: 400, message: 'HTTP/1.0 knows no Transfer-Encoding.' };
const codings: FramingFault = {
  status: 501,
  message: 'The only Transfer-Encoding that is taken is one line "chunked".',
};

/**
 * Rejects requests that Node's parser accepts although a second parser might interpret the same bytes differently: more
 * than one Host (RFC 9112 §3.2), codings other than chunked, which the gateway would drop without decoding (§6.1), any
 * coding in HTTP/1.0 (§6.1), and versions that are not of this protocol (§2.3). Null for a valid request.
 */
export function framingFault(request: IncomingMessage): FramingFault | null {
  if (request.httpVersionMajor === 2) return request.httpVersion === '2.0' && 'stream' in request ? null : versions;
  if (request.httpVersionMajor !== 1) return versions;
  const raw = request.rawHeaders;
  let hostLines = 0;
  let codingLines = 0;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (isHeader(name, 'host')) {
      if (++hostLines > 1) return hosts;
    } else if (isHeader(name, 'transfer-encoding')) {
      if (request.httpVersionMinor === 0) return oldCoding;
      if (++codingLines > 1 || (raw[index + 1] as string).toLowerCase() !== 'chunked') return codings;
    }
  }
  return null;
}

/**
 * Responds to a request that is rejected for its framing, and ends its connection: what follows cannot be trusted
 * either.
 */
export function rejectFraming(request: IncomingMessage, response: ServerResponse, fault: FramingFault): void {
  rejectUnread(request, response, fault.status, 'text/plain; charset=utf-8', `${fault.message}\n`);
}

/** Rejects a request, and ends its connection: what else it holds is not read. */
export function rejectUnread(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
): void {
  endWith(request, response);
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}

/** Returns the reason that a request must be rejected under the host that it names; null if it may. */
export type HostCheck = (request: IncomingMessage) => GatewayError | null;

/** Longest part of a host that a message repeats. */
const MAX_SHOWN = 100;

/**
 * Makes the check of `Host` (`:authority` in HTTP/2) for a gateway without authentication. A page of another site can
 * give its own host name the gateway's address (DNS rebinding) and is then of the same origin as the gateway; what the
 * page cannot do is to send another `Host` than its own. So a name gets a response only where it is known to be the
 * gateway's. Addresses need no DNS, so no one can rebind them; a request without `Host` (HTTP/1.0) is of no browser.
 * @param allowed `server.allowedHosts`: names, `*.example.com` for all names below, `*` for any
 */
export function hostCheck(allowed: readonly string[]): HostCheck {
  const names = new Set(allowed.map((name) => name.toLowerCase()));
  const endings = [...names].filter((name) => name.startsWith('*.')).map((name) => name.slice(1));
  if (names.has('*')) return () => null;
  return ({ headers }) => {
    if (headers.host === undefined) return null;
    const host = parseHost(headers.host)?.name.replace(/^\[|\]$/g, '') ?? headers.host;
    if (isIP(host) !== 0 || host === 'localhost' || host.endsWith('.localhost') || names.has(host)) return null;
    if (endings.some((ending) => host.endsWith(ending) && host.length > ending.length)) return null;
    const quoted = JSON.stringify(host.slice(0, MAX_SHOWN));
    return new GatewayError(
      'EG_UNKNOWN_HOST',
      `${quoted} is not known as a name of this gateway, which runs without authentication. Use its address, or have its administrator add the name to server.allowedHosts.`,
      { field: 'Host' },
    );
  };
}

/** Responds to a request under a host that is not the gateway's; what else the connection holds is not read. */
export function rejectHost(request: IncomingMessage, response: ServerResponse, refusal: GatewayError): void {
  const body = JSON.stringify(refusal.toBody());
  rejectUnread(request, response, refusal.status, 'application/json; charset=utf-8', body);
}

/** Content of an address of the gateway: its API and pages, or proxied paths; `unclear` if a request names two. */
export type Side = 'admin' | 'queries' | 'unclear';

/** Separates API and pages from what is proxied, so that a page of an engine is of another origin (docs/serving.md). */
export interface Origins {
  sideOf(request: IncomingMessage): Side;
  /** Address of API and pages, for responses of the other side, e.g. `admin.example (server.adminHosts)`. */
  readonly adminAddress: string;
  /** Paths of probes and metrics, which every address serves to GET and HEAD: kubelets ask by the pod's address. */
  readonly sharedPaths: ReadonlySet<string>;
}

const MAX_KNOWN_HOSTS = 1000;

/**
 * Distinguishes the sides by the host that a request names: by `Host` or `:authority`, and by what trusted proxies say
 * that it was. A request of which either is an admin host is never proxied; one from a page of the other side gets no
 * response.
 * @param adminHosts `server.adminHosts`
 * @param clientOf what the client called the gateway, after trusted proxies
 */
export function sideByHost(
  adminHosts: readonly RequestHost[],
  clientOf: (request: IncomingMessage) => ClientView,
): Origins['sideOf'] {
  const results = new Map<string, boolean>();
  const isAdmin = (text: string): boolean => {
    let isServed = results.get(text);
    if (isServed === undefined) {
      const host = parseHost(text);
      isServed = host !== null && namesOneOf(adminHosts, host);
      if (results.size >= MAX_KNOWN_HOSTS) results.clear();
      results.set(text, isServed);
    }
    return isServed;
  };
  return (request) => {
    const host = firstHeader(request.rawHeaders, 'host') ?? '';
    const direct = isAdmin(host);
    const target = request.url ?? '';
    // RFC 9112 §3.2.2: the authority of an absolute target counts instead of Host; no browser sends either apart.
    const authority = target.charCodeAt(0) === 47 ? null : /^https?:\/\/([^/?#]*)/i.exec(target)?.[1];
    if (authority != null && isAdmin(authority) !== direct) return 'unclear';
    if (direct) return 'admin';
    const view = clientOf(request);
    if (!isAdmin(`${view.host}:${view.port}`)) return 'queries';
    // A proxy that passes X-Forwarded-Host on as it came lets pages of the other side write it, but not Origin.
    const origin = firstHeader(request.rawHeaders, 'origin');
    return origin === undefined || isAdmin(URL.parse(origin)?.host ?? '') ? 'admin' : 'unclear';
  };
}

/** True if a request asks for a probe or for metrics. */
export function isShared({ sharedPaths }: Origins, { method, url }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const path = splitTarget(url ?? '')?.path;
  return path !== undefined && sharedPaths.has(path);
}

/** Responds to a request that came to the wrong address: 404 with the right one, 400 where it names two. */
export function respondElsewhere(response: ServerResponse, { adminAddress }: Origins, side: Side): void {
  const message =
    side === 'admin'
      ? `This address serves the REST API and the pages of the gateway: ${adminAddress}. Send queries to another host name or port of the gateway.`
      : side === 'queries'
        ? `This address serves queries only. The REST API and the pages of the gateway are at ${adminAddress}.`
        : 'The request names different hosts: its target and Host, or Origin and what a proxy says, must agree.';
  const type = ['content-type', 'text/plain; charset=utf-8', 'x-content-type-options', 'nosniff'];
  respond(response, side === 'unclear' ? 400 : 404, [...type, 'cache-control', 'no-store'], `${message}\n`);
}
