import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
  STATUS_CODES,
  setMaxIdleHTTPParsers,
} from 'node:http';
import { constants, createSecureServer, type Http2SecureServer, type ServerHttp2Stream } from 'node:http2';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import { isIP, type Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { GatewayError } from '../../model/errors.ts';
import { namesOneOf, parseHost, type RequestHost } from '../../model/http.ts';
import { splitTarget } from '../../routing/statementProtocol.ts';
import { endedConnections, endWith, Http1Request, linger } from '../bodies/requestBodies.ts';
import type { DataPlane } from '../dataPlane.ts';
import { respond } from '../exchanges/responses.ts';
import type { ClientView } from '../headers/requestHeaders.ts';
import type { TlsMaterial } from '../tls/tlsFiles.ts';
import { ClientSession, type Http2Connections, Http2Request, Http2Response, resetStream } from './http2Connections.ts';
import type { OverloadManager } from './overloadManager.ts';

type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits of client connections; times in milliseconds, sizes in bytes. */
export interface ServerLimits {
  readonly maxHeaderSize: number;
  readonly maxHeaderLines: number;
  /** Largest head of a response; over HTTP/2 a larger one cannot be sent. */
  readonly maxResponseHeaderSize: number;
  readonly headersTimeout: number;
  /** Time for a client to send a whole request. */
  readonly requestTimeout: number;
  /** Time after which an idle client connection is closed. */
  readonly idleTimeout: number;
  readonly maxConnections: number;
  /** True if clients over TLS may speak HTTP/2. */
  readonly http2: boolean;
  /** Concurrent requests on one HTTP/2 connection. */
  readonly maxConcurrentStreams: number;
  readonly connectionsCheckingInterval: number;
}

export interface GatewayServerOptions extends ServerLimits {
  /** Null: nothing is proxied. */
  readonly dataPlane: Pick<DataPlane, 'paths' | 'handle'> | null;
  /** Null: there is no API; what is not proxied is 404. */
  readonly api: RequestHandler | null;
  /** Rejects hosts that are not the gateway's; null if callers are authenticated. */
  readonly hostCheck: ReturnType<typeof hostCheck> | null;
  /** Separates what the two serve by the address that a request came to; null: they share it. */
  readonly origins: Origins | null;
  /** Counts every request, so that a clean stop can wait for it. */
  readonly openRequests: OpenRequests;
  /** Rejects requests while memory is short. */
  readonly overload: OverloadManager;
  /** Decides which connections over TLS speak HTTP/2. */
  readonly http2Connections: Http2Connections;
}

/** Requests of clients that are without a complete response, of all listeners; a clean stop waits for them. */
export class OpenRequests {
  /**
   * Places of open requests; null if one is free. A `Set` would rebuild its table over and over, and old tables
   * that wait for collection keep all responses of their time: three times the work for the garbage collector.
   */
  readonly #places: (ServerResponse | null)[] = [];
  readonly #free: number[] = [];
  #draining = false;
  #onIdle: (() => void) | null = null;

  count = 0;

  /** Notes a request at its begin; its end shows by the response. */
  add(response: ServerResponse): void {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = response;
    this.count++;
    if (this.#draining) response.shouldKeepAlive = false;
    response.on('close', () => {
      this.#places[place] = null;
      this.#free.push(place);
      this.count--;
      if (this.count === 0) this.#onIdle?.();
    });
  }

  /** From now on responses end their connection (`Connection: close`), so that clients go elsewhere. */
  drain(): void {
    this.#draining = true;
    for (const response of this.#places) if (response?.headersSent === false) response.shouldKeepAlive = false;
  }

  idle(timeoutMs: number): Promise<boolean> {
    if (this.count === 0) return Promise.resolve(true);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), timeoutMs);
    this.#onIdle = () => resolve(true);
    return promise.finally(() => {
      clearTimeout(timer);
      this.#onIdle = null;
    });
  }
}

/** Leads requests to data plane or API; proxied paths come first where both share an address. */
function requestHandler(options: GatewayServerOptions): RequestHandler {
  const { dataPlane, api, origins, openRequests, hostCheck, overload } = options;
  return (request, response) => {
    if (endedConnections.has(request.socket)) {
      // Nothing more is read from it.
      request.socket.pause();
      return;
    }
    openRequests.add(response);
    // The last one of the connection, over HTTP/1.1.
    (request.socket as RespondingSocket)[lastResponse] = response;
    const fault = headFault(request, options) ?? framingFault(request);
    if (fault !== null) {
      rejectUnread(request, response, fault.status, 'text/plain; charset=utf-8', `${fault.message}\n`);
      return;
    }
    const unknownHost = hostCheck?.(request) ?? null;
    if (unknownHost !== null) {
      const body = JSON.stringify(unknownHost.toBody());
      rejectUnread(request, response, unknownHost.status, 'application/json; charset=utf-8', body);
      return;
    }
    const target = dataPlane?.paths.read(request.method ?? '', request.url ?? '') ?? null;
    const isProxied = target !== null;
    const side = origins === null ? null : origins.sideOf(request);
    const isServed = isProxied
      ? origins === null || side === 'queries'
      : origins === null || side === 'admin' || isShared(origins, request);
    if (origins !== null && !isServed && (isProxied || api !== null)) {
      respondElsewhere(response, origins, side ?? 'unclear');
    } else if (overload.rejects(request, response, isProxied)) return;
    else if (isProxied) dataPlane?.handle(request, response, target);
    else if (api !== null) api(request, response);
    else respond(response, 404, [], '');
  };
}

// An idle parser keeps the lines of the head that it rejected: with Node's default, 1,000 parsers keep 128 MB.
setMaxIdleHTTPParsers(64);

/** Options of Node's HTTP/1.1 server, in clear text and over TLS. */
function http1Options(limits: ServerLimits) {
  return {
    maxHeaderSize: limits.maxHeaderSize,
    headersTimeout: limits.headersTimeout,
    requestTimeout: limits.requestTimeout,
    keepAliveTimeout: limits.idleTimeout,
    connectionsCheckingInterval: limits.connectionsCheckingInterval,
    insecureHTTPParser: false,
    noDelay: true,
    optimizeEmptyRequests: true,
  } as const;
}

/** Makes the clear-text HTTP/1.1 server of proxied paths and API. The caller listens. */
export function createGatewayServer(options: GatewayServerOptions): Server {
  const server = createServer({ ...http1Options(options), IncomingMessage: Http1Request }, requestHandler(options));
  // The line too many, which gets a response by that name.
  server.maxHeadersCount = options.maxHeaderLines + 1;
  handleParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  return server;
}

/** Handling of client certificates: ignored, requested, or required and verified. */
export type ClientCertificateMode = 'ignore' | 'request' | 'require';

/** Bytes of request bodies that may be on the way on one connection, all its streams together. */
const CONNECTION_WINDOW = 512 * 1024;

/**
 * Makes the server of proxied paths and API over TLS: HTTP/2 where the client asks for it by ALPN and `http2` allows it,
 * else HTTP/1.1 (docs/serving.md#http2). The caller listens.
 * @param clientCertificates whether clients are asked for a certificate of one of the material's authorities
 */
export function createSecureGatewayServer(
  options: GatewayServerOptions,
  material: TlsMaterial,
  clientCertificates: ClientCertificateMode,
) {
  const tls = {
    ...material.context,
    // With `request` a certificate that is not accepted gets a response in words (docs/client-certificates.md).
    ...(clientCertificates === 'ignore'
      ? {}
      : { requestCert: true, rejectUnauthorized: clientCertificates === 'require' }),
    handshakeTimeout: options.headersTimeout,
  };
  const server = options.http2
    ? createBothServer(options, tls)
    : createHttpsServer(
        { ...http1Options(options), ...tls, ALPNProtocols: ['http/1.1'], IncomingMessage: Http1Request },
        requestHandler(options),
      );
  (server as HttpsServer).maxHeadersCount = options.maxHeaderLines + 1;
  handleParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  const sockets = new Set<TLSSocket>();
  (server as HttpsServer).on('secureConnection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    server,
    useCertificate: ({ context }: TlsMaterial) => server.setSecureContext(context),
    /** Ends connections over HTTP/1.1 on which nothing runs; those over HTTP/2 end by themselves once it is closed. */
    closeIdleConnections() {
      // As in node:http; the types of an HTTP/2 server do not know it.
      (server as HttpsServer).closeIdleConnections();
    },
    closeAllConnections() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** A server of HTTP/2 and HTTP/1.1 over TLS. */
function createBothServer(options: GatewayServerOptions, tls: object): Http2SecureServer {
  const handle = requestHandler(options);
  const { http2Connections: connections } = options;
  const server = createSecureServer({
    ...http1Options(options),
    ...tls,
    allowHTTP1: true,
    // Node calls it as a method of the connection.
    ALPNCallback(this: TLSSocket, { protocols }: { readonly protocols: readonly string[] }) {
      return connections.choose(this, protocols);
    },
    // Pseudo headers and the line too many, which gets a response 431.
    maxHeaderListPairs: options.maxHeaderLines + 8,
    maxSendHeaderBlockLength: options.maxResponseHeaderSize,
    settings: {
      maxConcurrentStreams: options.maxConcurrentStreams,
      // Beyond this the stream is reset; between it and the limit a request gets 431. Each line counts 32 bytes more
      // than it has (RFC 9113 §6.5.2).
      maxHeaderListSize: Math.min(options.maxHeaderSize, MAX_HTTP2_HEAD) * 2 + (options.maxHeaderLines + 8) * 32,
      enablePush: false,
    },
    Http1IncomingMessage: Http1Request,
    Http2ServerRequest: Http2Request,
    Http2ServerResponse: Http2Response,
  } as never);
  let newest: TLSSocket | null = null;
  // Before Node's own listener, which makes the session of the socket.
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    newest = socket;
  });
  server.on('session', (session) => {
    if (newest === null) return;
    const noted = new ClientSession(session, newest, connections);
    session.setLocalWindowSize(CONNECTION_WINDOW);
    session.setTimeout(options.idleTimeout, () => {
      if (noted.open === 0) session.close();
    });
  });
  server.on('request', (request, response) => {
    // The members of HTTP/1.1, as far as the gateway uses them.
    const plain = response as unknown as ServerResponse;
    if (request.httpVersionMajor === 2) limitBody(request.stream, plain, options.requestTimeout);
    handle(request as unknown as IncomingMessage, plain);
  });
  return server;
}

/** Node's behaviour for HTTP/1.1: 408 for a missing body. Trailers are dropped. */
function limitBody(stream: ServerHttp2Stream, response: ServerResponse, requestTimeout: number): void {
  if (stream.endAfterHeaders) return;
  // Node would keep them with the request.
  stream.removeAllListeners('trailers');
  stream.on('trailers', () => undefined);
  const timer = setTimeout(() => {
    if (response.headersSent) resetStream(stream, constants.NGHTTP2_CANCEL);
    else {
      response.writeHead(408, ['content-length', '0']);
      response.end();
    }
  }, requestTimeout);
  stream.once('end', () => clearTimeout(timer));
  stream.once('close', () => clearTimeout(timer));
}

/** The limit of heads over HTTP/2, bytes: its library takes one HEADERS and 8 CONTINUATION frames of 16 kB each. */
export const MAX_HTTP2_HEAD = 9 * 16_384;

const KEY = 'serverConfig."http-server.max-request-header-size"';

/** The rejection of a request for its head (RFC 6585 §5), which the parser has not rejected; null for none. */
function headFault(
  { rawHeaders, url = '', httpVersionMajor }: IncomingMessage,
  { maxHeaderSize, maxHeaderLines }: ServerLimits,
): RequestFault | null {
  if (rawHeaders.length > 2 * maxHeaderLines) {
    const message = `The request has more than ${maxHeaderLines} header lines (server.maxHeaderLines).`;
    return { status: 431, message };
  }
  if (httpVersionMajor === 1) return null;
  const limit = Math.min(maxHeaderSize, MAX_HTTP2_HEAD);
  // As HTTP/1.1 has them: "name: value\r\n".
  const size = rawHeaders.reduce((sum, text) => sum + text.length + 2, url.length);
  if (size <= limit) return null;
  const key = limit === maxHeaderSize ? KEY : 'the most over HTTP/2; HTTP/1.1 takes more';
  return { status: 431, message: `Request line and headers are larger than ${limit} bytes (${key}).` };
}

const lastResponse = Symbol('last response');

interface RespondingSocket extends Socket {
  [lastResponse]?: ServerResponse | 'parser error';
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
function handleParserErrors(
  server: Server | Http2SecureServer | HttpsServer,
  { maxHeaderSize, maxHeaderLines }: ServerLimits,
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
interface RequestFault {
  readonly status: 400 | 431 | 501 | 505;
  readonly message: string;
}

const versions: RequestFault = { status: 505, message: 'HTTP/1.1 and HTTP/1.0 are spoken here.' };
const hosts: RequestFault = { status: 400, message: 'The request has more than one Host.' };
const oldCoding: RequestFault = { status: 400, message: 'HTTP/1.0 knows no Transfer-Encoding.' };
const codings: RequestFault = {
  status: 501,
  message: 'The only Transfer-Encoding that is taken is one line "chunked".',
};

/**
 * Rejects requests that Node's parser accepts although a second parser might interpret the same bytes differently: more
 * than one Host (RFC 9112 §3.2), codings other than chunked, which the gateway would drop without decoding (§6.1), any
 * coding in HTTP/1.0 (§6.1), and versions that are not of this protocol (§2.3). Null for a valid request.
 */
function framingFault(request: IncomingMessage): RequestFault | null {
  if (request.httpVersionMajor === 2) return request.httpVersion === '2.0' && 'stream' in request ? null : versions;
  if (request.httpVersionMajor !== 1) return versions;
  const raw = request.rawHeaders;
  let hostLines = 0;
  let codingLines = 0;
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] as string).toLowerCase();
    if (name === 'host') {
      if (++hostLines > 1) return hosts;
    } else if (name === 'transfer-encoding') {
      if (request.httpVersionMinor === 0) return oldCoding;
      if (++codingLines > 1 || (raw[index + 1] as string).toLowerCase() !== 'chunked') return codings;
    }
  }
  return null;
}

/** Rejects a request, and ends its connection: what follows cannot be trusted either. */
function rejectUnread(
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

const MAX_KNOWN_HOSTS = 1000;
/** Longest part of a host that a message repeats. */
const MAX_SHOWN = 100;

/**
 * Makes the check of `Host` (`:authority` in HTTP/2) for a gateway without authentication. A page of another site can
 * give its own host name the gateway's address (DNS rebinding) and is then of the same origin as the gateway; what the
 * page cannot do is to send another `Host` than its own. So a name gets a response only where it is known to be the
 * gateway's. Addresses need no DNS, so no one can rebind them; a request without `Host` (HTTP/1.0) is of no browser.
 * @param allowed `server.allowedHosts`: names, `*.example.com` for all names below, `*` for any
 */
export function hostCheck(allowed: readonly string[]): (request: IncomingMessage) => GatewayError | null {
  const names = new Set(allowed.map((name) => name.toLowerCase()));
  const endings = [...names].filter((name) => name.startsWith('*.')).map((name) => name.slice(1));
  if (names.has('*')) return () => null;
  const accepted = new Set<string>();
  return ({ headers }) => {
    if (headers.host === undefined || accepted.has(headers.host)) return null;
    const host = parseHost(headers.host)?.name.replace(/^\[|\]$/g, '') ?? headers.host;
    const isLocal = isIP(host) !== 0 || host === 'localhost' || host.endsWith('.localhost');
    if (isLocal || names.has(host) || endings.some((ending) => host.endsWith(ending) && host.length > ending.length)) {
      if (accepted.size >= MAX_KNOWN_HOSTS) accepted.clear();
      accepted.add(headers.host);
      return null;
    }
    const quoted = JSON.stringify(host.slice(0, MAX_SHOWN));
    return new GatewayError(
      'EG_UNKNOWN_HOST',
      `${quoted} is not known as a name of this gateway, which runs without authentication. Use its address, or have its administrator add the name to server.allowedHosts.`,
      { field: 'Host' },
    );
  };
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
    const host = request.headers.host ?? '';
    const direct = isAdmin(host);
    const target = request.url ?? '';
    // RFC 9112 §3.2.2: the authority of an absolute target counts instead of Host; no browser sends either apart.
    const authority = target.charCodeAt(0) === 47 ? null : /^https?:\/\/([^/?#]*)/i.exec(target)?.[1];
    if (authority != null && isAdmin(authority) !== direct) return 'unclear';
    if (direct) return 'admin';
    const view = clientOf(request);
    if (!isAdmin(`${view.host}:${view.port}`)) return 'queries';
    // A proxy that passes X-Forwarded-Host on as it came lets pages of the other side write it, but not Origin.
    const { origin } = request.headers;
    return origin === undefined || isAdmin(URL.parse(origin)?.host ?? '') ? 'admin' : 'unclear';
  };
}

/** True if a request asks for a probe or for metrics. */
function isShared({ sharedPaths }: Origins, { method, url }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false;
  const path = splitTarget(url ?? '')?.path;
  return path !== undefined && sharedPaths.has(path);
}

/** Responds to a request that came to the wrong address: 404 with the right one, 400 where it names two. */
function respondElsewhere(response: ServerResponse, { adminAddress }: Origins, side: Side): void {
  const message =
    side === 'admin'
      ? `This address serves the REST API and the pages of the gateway: ${adminAddress}. Send queries to another host name or port of the gateway.`
      : side === 'queries'
        ? `This address serves queries only. The REST API and the pages of the gateway are at ${adminAddress}.`
        : 'The request names different hosts: its target and Host, or Origin and what a proxy says, must agree.';
  const type = ['content-type', 'text/plain; charset=utf-8', 'x-content-type-options', 'nosniff'];
  respond(response, side === 'unclear' ? 400 : 404, [...type, 'cache-control', 'no-store'], `${message}\n`);
}
