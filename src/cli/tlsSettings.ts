import { namesUsersByCertificate } from '../config/consistency.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { httpClientSettings } from '../config/httpClient.ts';
import type { HttpClient } from '../config/schema/serverConfig.ts';
import type { ClientCertificateMode } from '../gateway/server/secureServer.ts';
import type { TlsFiles } from '../gateway/tls/tlsFiles.ts';

/** Files of the server certificate; null if HTTPS is disabled. */
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

/** Client certificate request on TLS connections (`server.clientCertificates`). */
export function clientCertificateMode(config: GatewayConfig): ClientCertificateMode {
  const stated = config.server.clientCertificates;
  if (stated !== null) return stated;
  if (config.serverConfig['http-server.https.truststore.path'] === null) return 'ignore';
  return namesUsersByCertificate(config) ? 'request' : 'require';
}

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
