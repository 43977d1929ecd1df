import type { GatewayConfig } from './gatewayConfig.ts';
import type { HttpClient } from './schema/serverConfig.ts';

/** Settings of one HTTP client of the gateway; times in milliseconds, sizes in bytes. */
export type HttpClientSettings = ReturnType<typeof httpClientSettings>;

/** The settings under a client's prefix in `serverConfig`; a request time of null is that of another key. */
export function httpClientSettings({ serverConfig }: GatewayConfig, client: HttpClient) {
  return {
    connectTimeout: serverConfig[`${client}.http-client.connect-timeout`],
    requestTimeout: serverConfig[`${client}.http-client.request-timeout`],
    idleTimeout: serverConfig[`${client}.http-client.idle-timeout`],
    maxConnectionsPerServer: serverConfig[`${client}.http-client.max-connections-per-server`],
    maxRequestsQueuedPerDestination: serverConfig[`${client}.http-client.max-requests-queued-per-destination`],
    maxResponseContentLength: serverConfig[`${client}.http-client.max-response-content-length`],
    verifyHostname: serverConfig[`${client}.http-client.https.hostname-verification`],
    keyStorePath: serverConfig[`${client}.http-client.key-store-path`],
    keyStorePassword: serverConfig[`${client}.http-client.key-store-password`],
    trustStorePath: serverConfig[`${client}.http-client.trust-store-path`],
  };
}
