import { namesUsersByCertificate } from '../config/consistency.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { httpClientSettings } from '../config/httpClient.ts';
import type { HttpClient } from '../config/schema/serverConfig.ts';
import type { DataPlaneSettings } from '../gateway/dataPlane.ts';
import type { ExternalRulesOptions } from '../gateway/external/externalRules.ts';
import type { CheckSettings } from '../gateway/health/checks.ts';
import type { MonitorSettings } from '../gateway/health/healthMonitors.ts';
import type { HandshakeCookieOptions } from '../gateway/pages/handshakeCookies.ts';
import type { ReplaySettings } from '../gateway/replay/recordedQuery.ts';
import type { ClientCertificateMode } from '../gateway/server/gatewayServer.ts';
import type { TlsFiles } from '../gateway/tls/tlsFiles.ts';
import { ClusterAddresses } from '../model/clusterAddresses.ts';
import type { ProductNames } from '../model/names.ts';
import type { DeletionGuardSettings } from '../operator/reconcile/servedResources.ts';
import { requestKeyOf } from '../routing/admissionPolicy.ts';
import { STATEMENT_PATH } from '../routing/statementProtocol.ts';
import { MAX_ANALYZED_LENGTH } from '../sql/analyzeRequest.ts';
import type { JdbcSettings } from '../store/jdbcUrl.ts';
import type { HistorySettings } from '../store/recordWriter.ts';

/**
 * Time of rejected connections after which the owner of a query is considered gone
 * (docs/protocol.md#follow-ups-of-a-cluster-that-is-gone).
 */
const OWNER_GONE_AFTER_MS = 10_000;

export function dataPlaneSettings(config: GatewayConfig): DataPlaneSettings {
  const { routing } = config;
  return {
    ...routing,
    groupStrategies: byGroup(routing.groups, ({ strategy }) => strategy),
    affinity: requestKeyOf(routing.affinity.by),
    groupAffinities: byGroup(routing.groups, ({ affinity: { by } }) => (by === null ? null : requestKeyOf(by))),
    propagateErrors: config.routingRules.rulesExternalConfiguration.propagateErrors,
    includeClusterHostInResponse: config.includeClusterHostInResponse,
    maxAnalyzedBody: Math.min(config.requestAnalyzerConfig.maxBodySize, MAX_ANALYZED_LENGTH),
    maxBodySize: config.server.maxBodySize,
    clientStallTimeout: config.serverConfig['http-server.net.max-idle-time'],
    ownerGoneAfter: OWNER_GONE_AFTER_MS,
    logQueryText: config.logging.queryText,
    historyEnabled: config.dataStore.queryHistoryEnabled,
    historyBeforeResponse: config.queryHistory.writeBeforeAnswer,
  };
}

/** Options of the cookies of OAuth2 logins; null unless `gatewayCookieConfiguration` enables them. */
export function handshakeCookieOptions(
  { gatewayCookieConfiguration, oauth2GatewayCookieConfiguration }: GatewayConfig,
  { stickyCookiePrefix }: ProductNames,
): HandshakeCookieOptions | null {
  const { enabled, cookieSigningSecret } = gatewayCookieConfiguration;
  if (!enabled || cookieSigningSecret === null) return null;
  return { ...oauth2GatewayCookieConfiguration, secret: cookieSigningSecret, prefix: stickyCookiePrefix };
}

type Groups = GatewayConfig['routing']['groups'];

function byGroup<T>(groups: Groups, read: (group: Groups[string]) => T | null): ReadonlyMap<string, T> {
  const values = Object.entries(groups).map(([name, group]) => [name, read(group)] as const);
  return new Map(values.filter((each): each is [string, T] => each[1] !== null));
}

/** Options of the external rules service, or null (docs/rules.md#an-external-rules-service). */
export function externalRulesOptions(config: GatewayConfig): Omit<ExternalRulesOptions, 'ownCookies' | 'tls'> | null {
  const { rulesType, rulesEngineEnabled, rulesExternalConfiguration } = config.routingRules;
  const url = rulesExternalConfiguration.urlPath;
  if (rulesType !== 'EXTERNAL' || rulesEngineEnabled === false || url === null) return null;
  return {
    ...httpClientSettings(config, 'router'),
    url,
    needsAnalysis: config.requestAnalyzerConfig.analyzeRequest,
    requestTimeout: config.serverConfig['router.http-client.request-timeout'],
    settings: config.routingRules.rulesExternalConfiguration,
  };
}

/** Defaults of health checks. */
export function monitorSettings({ monitor, clusterStatsConfiguration }: GatewayConfig): MonitorSettings {
  return { ...monitor, type: clusterStatsConfiguration.monitorType, interval: monitor.taskDelay };
}

export function checkSettings(config: GatewayConfig): CheckSettings {
  const { monitor, backendState } = config;
  return {
    ...monitor,
    forwardedProto: backendState?.xForwardedProtoHeader ?? false,
    maxResponse: httpClientSettings(config, 'monitor').maxResponseContentLength,
  };
}

export function historySettings({ dataStore, queryHistory }: GatewayConfig): HistorySettings {
  return { ...queryHistory, enabled: dataStore.queryHistoryEnabled, flushIntervalMs: queryHistory.flushInterval };
}

/** Addresses that clusters may have. */
/** Addresses that clusters may have, as plain data. */
export function clusterAddressOptions({ resources: { source, allowedAddresses } }: GatewayConfig) {
  // Authors of other sources operate the gateway; engines on the same machine are theirs.
  return { allowed: allowedAddresses, loopback: source !== 'kubernetes' };
}

export function clusterAddresses(config: GatewayConfig): ClusterAddresses {
  return new ClusterAddresses(clusterAddressOptions(config));
}

export function ruleCompilerOptions({ routingRules, requestAnalyzerConfig: { analyzeRequest } }: GatewayConfig) {
  const { rulesEngineEnabled, maxSteps, decisionTimeout } = routingRules;
  const limits = { steps: maxSteps, time: decisionTimeout };
  return { ...routingRules, rulesEngineEnabled: rulesEngineEnabled ?? undefined, analyzeRequest, limits };
}

/** True if pages of engines are served at the same origin as the gateway's API and pages (docs/serving.md). */
export function sharesOrigin({ server }: GatewayConfig): boolean {
  return server.enginePages === 'proxy' && server.adminHosts.length === 0 && server.adminPort === null;
}

/** Converts `dataStore` for the store. */
export function databaseSettings({ dataStore: { jdbcUrl, user, password } }: GatewayConfig): JdbcSettings {
  return { jdbcUrl, user: user ?? undefined, password: password ?? undefined };
}

export function replaySettings(config: GatewayConfig): ReplaySettings {
  const { requestAnalyzerConfig, queryHistory } = config;
  return {
    productName: config.protocol.productName,
    defaultGroup: config.routing.defaultRoutingGroup,
    statementPaths: [STATEMENT_PATH, ...config.additionalStatementPaths],
    analyzeRequest: requestAnalyzerConfig.analyzeRequest,
    maxAnalyzed: Math.min(requestAnalyzerConfig.maxBodySize, MAX_ANALYZED_LENGTH),
    clientsUseV2Format: requestAnalyzerConfig.isClientsUseV2Format,
    maxTextSize: queryHistory.maxTextSize,
    redacts: queryHistory.redact.length > 0,
  };
}

/** Converts `resources.massDeletion` for the operator. */
export function deletionGuard({ resources: { massDeletion } }: GatewayConfig): DeletionGuardSettings {
  const { confirmAfter } = massDeletion;
  return { ...massDeletion, confirmAfter: confirmAfter === 0 ? null : confirmAfter };
}

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
