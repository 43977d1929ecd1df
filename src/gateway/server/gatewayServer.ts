import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { DataPlane } from '../dataPlane.ts';
import { framingFault, refuseFraming } from './framing.ts';
import { answerParserErrors } from './headLimits.ts';
import type { OpenRequests } from './openRequests.ts';

/** A handler of requests, of either protocol. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** A handler of requests that are not proxied: the API's `app.routing`. */
export type ApiHandler = RequestHandler;

/** Limits of client connections; times in milliseconds, sizes in bytes. */
export interface ServerLimits {
  readonly maxHeaderSize: number;
  readonly headersTimeout: number;
  /** Time for a client to send a whole request. */
  readonly requestTimeout: number;
  /** Time after which an idle client connection is closed. */
  readonly idleTimeout: number;
  readonly maxConnections: number;
  /** Requests that may run at once on one HTTP/2 connection. */
  readonly maxConcurrentStreams: number;
  /** Time between two looks for connections over their time. */
  readonly connectionsCheckingInterval: number;
}

/** What a server of clients is made of. */
export interface GatewayServerOptions extends ServerLimits {
  /** Null: a listener for the API alone (`server.adminPort`). */
  readonly dataPlane: DataPlane | null;
  /** Null: a listener for proxied paths alone; all else is 404. */
  readonly api: ApiHandler | null;
  /** Told of every request, so that a clean stop can wait for it. */
  readonly openRequests?: OpenRequests;
}

/** The values of the configuration's defaults. */
export const defaultServerLimits: ServerLimits = {
  maxHeaderSize: 65_536,
  headersTimeout: 60_000,
  requestTimeout: 300_000,
  idleTimeout: 200_000,
  maxConnections: 20_000,
  maxConcurrentStreams: 250,
  connectionsCheckingInterval: 5_000,
};

/** Leads requests to data plane or API; proxied paths come first (contract.md §1.9). */
export function requestHandler({ dataPlane, api, openRequests }: GatewayServerOptions): RequestHandler {
  return (request, response) => {
    openRequests?.add(response);
    const fault = framingFault(request);
    if (fault !== null) refuseFraming(request, response, fault);
    else if (dataPlane?.handles(request.url ?? '') === true) dataPlane.handle(request, response);
    else if (api !== null) api(request, response);
    else response.writeHead(404, { 'content-length': 0 }).end();
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
  const server = createServer(http1Options(options), requestHandler(options));
  answerParserErrors(server, options);
  server.maxConnections = options.maxConnections;
  return server;
}
