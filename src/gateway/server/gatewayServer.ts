import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { dropAfterLast, hasEnded } from '../bodies/lastRequest.ts';
import { Http1Request } from '../bodies/unreadChunks.ts';
import type { DataPlane } from '../dataPlane.ts';
import { answer } from '../exchanges/ownResponses.ts';
import { framingFault, rejectFraming } from './framing.ts';
import { headFault, noteLastResponse, responseParserErrors } from './headLimits.ts';
import { type HostCheck, rejectHost } from './hostCheck.ts';
import type { Http2Connections } from './http2Connections.ts';
import type { OpenRequests } from './openRequests.ts';
import { isShared, type Origins, respondElsewhere } from './origins.ts';
import type { OverloadManager } from './overloadManager.ts';

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
  /** Requests that may run at once on one HTTP/2 connection. */
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
    const foreignHost = hostCheck === null ? null : hostCheck(request);
    if (foreignHost !== null) {
      rejectHost(request, response, foreignHost);
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
    else answer(response, 404, [], '');
  };
}

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
