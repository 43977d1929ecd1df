import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { httpClientSettings } from '../config/httpClient.ts';
import type { HttpClient } from '../config/schema/serverConfig.ts';
import type { TlsFiles } from '../gateway/tls/tlsFiles.ts';

/** Files of the certificate that clients are shown; null where HTTPS is off. */
export function incomingTlsFiles({ serverConfig }: GatewayConfig): TlsFiles | null {
  const path = serverConfig['http-server.https.keystore.path'];
  if (!serverConfig['http-server.https.enabled'] || path === null) return null;
  const password =
    serverConfig['http-server.https.keymanager.password'] ?? serverConfig['http-server.https.keystore.key'];
  const trusted = serverConfig['http-server.https.truststore.path'];
  return {
    keyStore: { path, password, key: 'serverConfig.http-server.https.keystore.path' },
    trustStore: trusted === null ? null : { path: trusted, key: 'serverConfig.http-server.https.truststore.path' },
  };
}

/** Certificate files of one of the gateway's clients. */
export function outgoingTlsFiles(config: GatewayConfig, client: HttpClient): TlsFiles {
  const { keyStorePath, keyStorePassword, trustStorePath } = httpClientSettings(config, client);
  const prefix = `serverConfig.${client}.http-client`;
  return {
    keyStore:
      keyStorePath === null
        ? null
        : { path: keyStorePath, password: keyStorePassword, key: `${prefix}.key-store-path` },
    trustStore: trustStorePath === null ? null : { path: trustStorePath, key: `${prefix}.trust-store-path` },
  };
}
