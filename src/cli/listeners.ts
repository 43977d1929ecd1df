import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import type { DataPlane } from '../gateway/dataPlane.ts';
import { type ApiHandler, createGatewayServer } from '../gateway/gatewayServer.ts';
import { GatewayError } from '../model/errors.ts';

/** Time between two looks for connections over their time. */
const CONNECTIONS_CHECKING_INTERVAL_MS = 5_000;

/** The servers that clients connect to. */
export interface Listeners {
  /** Address of proxied paths (and of the API, unless it has one of its own). */
  readonly url: string;
  /** Address of the API where `server.adminPort` gives it a listener of its own; else null. */
  readonly adminUrl: string | null;
  /** Takes no new connections and closes idle ones; resolves when the last one is closed. */
  drain(): Promise<void>;
  /** Closes every connection. */
  closeConnections(): void;
}

/**
 * Starts listening (contract.md §1; `server.adminPort`: design.md, fixed point 13).
 * @throws GatewayError EG_IMPOSSIBLE when an address cannot be listened on: the message names address and key
 */
export async function listen(config: GatewayConfig, dataPlane: DataPlane, api: ApiHandler): Promise<Listeners> {
  const { address, adminPort, headersTimeout, requestTimeout, maxConnections } = config.server;
  const port = config.serverConfig['http-server.http.port'];
  const limits = {
    maxHeaderSize: config.serverConfig['http-server.max-request-header-size'],
    headersTimeout,
    requestTimeout,
    idleTimeout: config.serverConfig['http-server.net.max-idle-time'],
    maxConnections,
    connectionsCheckingInterval: CONNECTIONS_CHECKING_INTERVAL_MS,
  };
  const shared = adminPort === null;
  const main = createGatewayServer({ dataPlane, api: shared ? api : null, ...limits });
  const url = await bind(main, address, port, 'serverConfig "http-server.http.port"');
  if (shared) return listeners([main], url, null);
  const admin = createGatewayServer({ dataPlane: null, api, ...limits });
  try {
    return listeners([main, admin], url, await bind(admin, address, adminPort, 'server.adminPort'));
  } catch (error) {
    main.close();
    throw error;
  }
}

async function bind(server: Server, address: string, port: number, key: string): Promise<string> {
  server.listen(port, address);
  try {
    await once(server, 'listening');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const why =
      code === 'EADDRINUSE' ? 'another program listens there' : code === 'EACCES' ? 'it is not allowed' : String(code);
    throw new GatewayError('EG_IMPOSSIBLE', `Cannot listen on ${address}:${port}: ${why}. Change ${key}.`, {
      field: key,
      cause: error,
    });
  }
  const bound = server.address() as AddressInfo;
  const host = bound.address === '0.0.0.0' || bound.address === '::' ? 'localhost' : bound.address;
  return `http://${host.includes(':') ? `[${host}]` : host}:${bound.port}`;
}

function listeners(servers: readonly Server[], url: string, adminUrl: string | null): Listeners {
  return {
    url,
    adminUrl,
    async drain() {
      await Promise.all(
        servers.map((server) => {
          const closed = once(server, 'close');
          server.close();
          server.closeIdleConnections();
          return closed;
        }),
      );
    },
    closeConnections() {
      for (const server of servers) server.closeAllConnections();
    },
  };
}
