import type { GatewayConfig } from './gatewayConfig.ts';
import type { HttpClient } from './schema/serverConfig.ts';

/** Settings of one HTTP client of the gateway; times in milliseconds, sizes in bytes. */
export interface HttpClientSettings {
  readonly connectTimeout: number;
  /** Null where the file leaves it to another key. */
  readonly requestTimeout: number | null;
  readonly idleTimeout: number;
  readonly maxConnectionsPerServer: number;
  readonly maxRequestsQueuedPerDestination: number;
  readonly maxResponseContentLength: number;
}

/** The settings under a client's prefix in `serverConfig` (contract.md §6). */
export function httpClientSettings({ serverConfig }: GatewayConfig, client: HttpClient): HttpClientSettings {
  return {
    connectTimeout: serverConfig[`${client}.http-client.connect-timeout`],
    requestTimeout: serverConfig[`${client}.http-client.request-timeout`],
    idleTimeout: serverConfig[`${client}.http-client.idle-timeout`],
    maxConnectionsPerServer: serverConfig[`${client}.http-client.max-connections-per-server`],
    maxRequestsQueuedPerDestination: serverConfig[`${client}.http-client.max-requests-queued-per-destination`],
    maxResponseContentLength: serverConfig[`${client}.http-client.max-response-content-length`],
  };
}
