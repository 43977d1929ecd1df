import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { DataPlane } from './dataPlane.ts';

/** A handler of requests that are not proxied: the API's `app.routing`. */
export type ApiHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** Limits of client connections; times in milliseconds, sizes in bytes. */
export interface GatewayServerOptions {
  /** Null: a listener for the API alone (`server.adminPort`). */
  readonly dataPlane: DataPlane | null;
  /** Null: a listener for proxied paths alone; all else is 404. */
  readonly api: ApiHandler | null;
  readonly maxHeaderSize: number;
  readonly headersTimeout: number;
  /** Time for a client to send a whole request. */
  readonly requestTimeout: number;
  /** Time after which an idle client connection is closed. */
  readonly idleTimeout: number;
  readonly maxConnections: number;
  /** Time between two looks for connections over their time. */
  readonly connectionsCheckingInterval: number;
}

/** The values of the configuration's defaults. */
export const defaultServerLimits = {
  maxHeaderSize: 16_384,
  headersTimeout: 60_000,
  requestTimeout: 300_000,
  idleTimeout: 200_000,
  maxConnections: 20_000,
  connectionsCheckingInterval: 5_000,
} as const;

/** Makes the HTTP server of proxied paths and API; proxied paths come first (contract.md §1.9). The caller listens. */
export function createGatewayServer(options: GatewayServerOptions): Server {
  const { dataPlane, api } = options;
  const handle = (request: IncomingMessage, response: ServerResponse) => {
    if (dataPlane?.handles(request.url ?? '') === true) dataPlane.handle(request, response);
    else if (api !== null) api(request, response);
    else response.writeHead(404, { 'content-length': 0 }).end();
  };
  const server = createServer(
    {
      maxHeaderSize: options.maxHeaderSize,
      headersTimeout: options.headersTimeout,
      requestTimeout: options.requestTimeout,
      keepAliveTimeout: options.idleTimeout,
      connectionsCheckingInterval: options.connectionsCheckingInterval,
      insecureHTTPParser: false,
      noDelay: true,
      optimizeEmptyRequests: true,
    },
    handle,
  );
  server.maxConnections = options.maxConnections;
  return server;
}
