import { createServer, type IncomingMessage, type Server, type ServerResponse, setMaxIdleHTTPParsers } from 'node:http';
import { constants, createSecureServer, type Http2SecureServer, type ServerHttp2Session } from 'node:http2';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import type { TLSSocket } from 'node:tls';
import { dropAfterLast, hasEnded } from '../bodies/lastRequest.ts';
import { Http1Request } from '../bodies/unreadChunks.ts';
import type { DataPlane } from '../dataPlane.ts';
import { respond } from '../exchanges/ownResponses.ts';
import type { TlsMaterial } from '../tls/tlsFiles.ts';
import { ClientSession, type Http2Connections } from './http2Connections.ts';
import { asHttp1, Http2Request, Http2Response, resetStream } from './http2Messages.ts';
import type { OpenRequests, OverloadManager } from './overloadManager.ts';
import {
  framingFault,
  type HostCheck,
  headFault,
  isShared,
  MAX_HTTP2_HEAD,
  noteLastResponse,
  type Origins,
  rejectFraming,
  rejectHost,
  respondElsewhere,
  responseParserErrors,
} from './requestChecks.ts';

export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** A handler of requests that are not proxied: the API's `app.routing`. */
export type ApiHandler = RequestHandler;

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
  readonly dataPlane: Pick<DataPlane, 'handles' | 'handle'> | null;
  /** Null: there is no API; what is not proxied is 404. */
  readonly api: ApiHandler | null;
  /** Rejects hosts that are not the gateway's; null if callers are authenticated. */
  readonly hostCheck: HostCheck | null;
  /** Separates what the two serve by the address that a request came to; null: they share it. */
  readonly origins: Origins | null;
  /** Counts every request, so that a clean stop can wait for it. */
  readonly openRequests: OpenRequests;
  /** Rejects requests while memory is short. */
  readonly overload: OverloadManager;
  /** Decides which connections over TLS speak HTTP/2. */
  readonly http2Connections: Http2Connections;
}

/** Leads requests to data plane or API; proxied paths come first where both share an address. */
export function requestHandler(options: GatewayServerOptions): RequestHandler {
  const { dataPlane, api, origins, openRequests, hostCheck, overload } = options;
  return (request, response) => {
    if (hasEnded(request.socket)) {
      dropAfterLast(request);
      return;
    }
    openRequests.add(response);
    noteLastResponse(request, response);
    const head = headFault(request, options);
    const fault = head === null ? framingFault(request) : ({ status: 431, message: head } as const);
    if (fault !== null) {
      rejectFraming(request, response, fault);
      return;
    }
    const rejectedHost = hostCheck === null ? null : hostCheck(request);
    if (rejectedHost !== null) {
      rejectHost(request, response, rejectedHost);
      return;
    }
    const isProxied = dataPlane?.handles(request.url ?? '') === true;
    const side = origins === null ? null : origins.sideOf(request);
    const isServed = isProxied
      ? origins === null || side === 'queries'
      : origins === null || side === 'admin' || isShared(origins, request);
    if (origins !== null && !isServed && (isProxied || api !== null)) {
      respondElsewhere(response, origins, side ?? 'unclear');
    } else if (overload.rejects(request, response, isProxied)) return;
    else if (isProxied) dataPlane?.handle(request, response);
    else if (api !== null) api(request, response);
    else respond(response, 404, [], '');
  };
}

// An idle parser keeps the lines of the head that it rejected: with Node's default, 1,000 parsers keep 128 MB.
setMaxIdleHTTPParsers(64);

/** Options of Node's HTTP/1.1 server, in clear text and over TLS. */
export function http1Options(limits: ServerLimits) {
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
  responseParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  return server;
}

/** Handling of client certificates: ignored, requested, or required and verified. */
export type ClientCertificateMode = 'ignore' | 'request' | 'require';

export interface SecureServer {
  readonly server: Http2SecureServer | HttpsServer;
  useCertificate(material: TlsMaterial): void;
  /** Ends connections over HTTP/1.1 on which nothing runs; those over HTTP/2 end by themselves once it is closed. */
  closeIdleConnections(): void;
  closeAllConnections(): void;
}

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
): SecureServer {
  const tls = {
    ...material.context,
    // With `request` a certificate that is not accepted gets a response in words (docs/client-certificates.md).
    ...(clientCertificates === 'ignore'
      ? {}
      : { requestCert: true, rejectUnauthorized: clientCertificates === 'require' }),
    handshakeTimeout: options.headersTimeout,
  };
  const server = options.http2 ? createBothServer(options, tls) : createHttp1Server(options, tls);
  (server as HttpsServer).maxHeadersCount = options.maxHeaderLines + 1;
  responseParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  const sockets = new Set<TLSSocket>();
  (server as HttpsServer).on('secureConnection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  return {
    server,
    useCertificate: ({ context }) => server.setSecureContext(context),
    closeIdleConnections() {
      // As in node:http; the types of an HTTP/2 server do not know it.
      (server as HttpsServer).closeIdleConnections();
    },
    closeAllConnections() {
      for (const socket of sockets) socket.destroy();
    },
  };
}

type TlsOptions = Readonly<Record<string, unknown>>;

/** A server of HTTP/1.1 over TLS. */
function createHttp1Server(options: GatewayServerOptions, tls: TlsOptions): HttpsServer {
  const handle = requestHandler(options);
  return createHttpsServer(
    { ...http1Options(options), ...tls, ALPNProtocols: ['http/1.1'], IncomingMessage: Http1Request },
    handle,
  );
}

/** A server of HTTP/2 and HTTP/1.1 over TLS. */
function createBothServer(options: GatewayServerOptions, tls: TlsOptions): Http2SecureServer {
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
    limitSession(session, new ClientSession(session, newest, connections), options.idleTimeout);
  });
  server.on('request', (request, response) => {
    if (request.httpVersionMajor === 2) {
      const messages = asHttp1(request as never, response as never);
      handleHttp2(request as unknown as Http2Request, messages.response, options, () =>
        handle(messages.request, messages.response),
      );
    } else handle(request as never, response as never);
  });
  return server;
}

/** Limits what is on the way on a session, and ends it where nothing runs on it. */
function limitSession(session: ServerHttp2Session, noted: ClientSession, idleTimeout: number): void {
  session.setLocalWindowSize(CONNECTION_WINDOW);
  session.setTimeout(idleTimeout, () => {
    if (noted.open === 0) session.close();
  });
}

/** Node's behaviour for HTTP/1.1: 408 for a missing body. Trailers are dropped. */
function handleHttp2(
  request: Http2Request,
  response: Parameters<RequestHandler>[1],
  { requestTimeout }: GatewayServerOptions,
  handle: () => void,
): void {
  const { stream } = request;
  if (!stream.endAfterHeaders) {
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
  handle();
}
