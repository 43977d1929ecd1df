import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { GatewayError } from '../../model/errors.ts';
import { hasBody } from '../bodies/body.ts';
import { memoryMessage } from '../bodies/bodyRefusal.ts';
import { FREE_HEAD_BYTES } from '../bodies/heldHead.ts';
import { dropAfterLast, hasEnded } from '../bodies/lastRequest.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import { Http1Request } from '../bodies/unreadChunks.ts';
import type { DataPlane } from '../dataPlane.ts';
import { answer } from '../requests/ownAnswers.ts';
import { clientSessionOf } from './clientSession.ts';
import { ComingHeads, heldHeadOf } from './comingHeads.ts';
import { framingFault, refuseFraming } from './framing.ts';
import { answerParserErrors, headFault, headSize } from './headLimits.ts';
import { type HostCheck, refuseHost } from './hostCheck.ts';
import type { Http2Connections } from './http2Connections.ts';
import type { OpenRequests } from './openRequests.ts';
import { answerElsewhere, isShared, type Origins } from './origins.ts';

/** A handler of requests, of either protocol. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** A handler of requests that are not proxied: the API's `app.routing`. */
export type ApiHandler = RequestHandler;

/** Limits of client connections; times in milliseconds, sizes in bytes. */
export interface ServerLimits {
  readonly maxHeaderSize: number;
  /** Most header lines of a request. */
  readonly maxHeaderLines: number;
  /** Largest head of an answer; over HTTP/2 a larger one cannot be sent. */
  readonly maxAnswerHeaderSize: number;
  readonly headersTimeout: number;
  /** Time for a client to send a whole request. */
  readonly requestTimeout: number;
  /** Time after which an idle client connection is closed. */
  readonly idleTimeout: number;
  readonly maxConnections: number;
  /** Whether clients over TLS may speak HTTP/2. */
  readonly http2: boolean;
  /** Requests that may run at once on one HTTP/2 connection. */
  readonly maxConcurrentStreams: number;
  /** Time between two looks for connections over their time. */
  readonly connectionsCheckingInterval: number;
}

/** What a server of clients is made of. */
export interface GatewayServerOptions extends ServerLimits {
  /** Null: nothing is proxied. */
  readonly dataPlane: DataPlane | null;
  /** Null: there is no API; what is not proxied is 404. */
  readonly api: ApiHandler | null;
  /** Refuses hosts that are not the gateway's; null where callers are authenticated. */
  readonly hostCheck: HostCheck | null;
  /** Separates what the two serve by the address that a request came to; null: they share it. */
  readonly origins: Origins | null;
  /** Counts every request, so that a clean stop can wait for it. */
  readonly openRequests: OpenRequests;
  /** Holds memory for bodies and large heads. */
  readonly bodies: RequestBodies;
  /** Decides which connections over TLS speak HTTP/2. */
  readonly http2Connections: Http2Connections;
}

/** Leads requests to data plane or API; proxied paths come first where both share an address. */
export function requestHandler(options: GatewayServerOptions): RequestHandler {
  const { dataPlane, api, origins, openRequests, hostCheck, bodies } = options;
  return (request, response) => {
    if (hasEnded(request.socket)) {
      dropAfterLast(request);
      return;
    }
    openRequests.add(response);
    const head = headSize(request);
    const heldHead = head > FREE_HEAD_BYTES ? heldHeadOf(request.socket) : undefined;
    if (heldHead !== undefined) {
      heldHead.endPace();
      response.shouldKeepAlive = false;
    }
    if (request.httpVersionMajor === 2 && head > FREE_HEAD_BYTES) bodies.noteHttp2Head(head);
    const fault = headFault(request, head, options) ?? framingFault(request);
    if (fault !== null) {
      refuseFraming(request, response, fault);
      forgetHeaders(request);
      return;
    }
    const foreignHost = hostCheck === null ? null : hostCheck(request);
    if (foreignHost !== null) {
      refuseHost(request, response, foreignHost);
      return;
    }
    const isProxied = dataPlane?.handles(request.url ?? '') === true;
    const side = origins === null ? null : origins.sideOf(request);
    const isServed = isProxied
      ? origins === null || side === 'queries'
      : origins === null || side === 'admin' || isShared(origins, request);
    if (origins !== null && !isServed && (isProxied || api !== null)) {
      answerElsewhere(response, origins, side ?? 'unclear');
    } else if (
      (head > FREE_HEAD_BYTES && heldHead === undefined && !bodies.admitHead(request, response, head)) ||
      (hasBody(request) && !bodies.admit(request, response))
    ) {
      refuseForMemory(response, bodies.memory, isProxied);
      forgetHeaders(request);
      if (request.httpVersionMajor === 2) {
        clientSessionOf((request as unknown as Http2ServerRequest).stream.session)?.noteRefused(head);
      }
    } else if (isProxied) dataPlane?.handle(request, response);
    else if (api !== null) api(request, response);
    else answer(response, 404, [], '');
  };
}

/**
 * Lets go of the headers of a request that is refused: over HTTP/2 it lives as long as its client wants, and 250 of them come
 * in a few bytes where the client names headers by their place in a table (RFC 7541 §6.1).
 */
function forgetHeaders({ httpVersionMajor, rawHeaders, headers }: IncomingMessage): void {
  if (httpVersionMajor !== 2) return;
  rawHeaders.length = 0;
  for (const name of Object.keys(headers)) delete headers[name];
}

/** Answers a request that there is no memory for, whatever it asks. */
function refuseForMemory(response: ServerResponse, limit: number, isProxied: boolean): void {
  const message = memoryMessage(limit);
  const type = isProxied ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8';
  const body = isProxied ? `${message}\n` : JSON.stringify(new GatewayError('EG_BUSY', message).toBody());
  answer(response, 503, ['content-type', type, 'cache-control', 'no-store', 'retry-after', '1'], body);
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
  // The line too many, which is answered by that name.
  server.maxHeadersCount = options.maxHeaderLines + 1;
  server.on('connection', new ComingHeads(options.bodies).watch);
  answerParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  return server;
}
