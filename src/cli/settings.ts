import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { httpClientSettings } from '../config/httpClient.ts';
import type { DataPlaneSettings } from '../gateway/dataPlaneSettings.ts';
import type { ExternalRulesOptions } from '../gateway/external/externalRules.ts';
import type { CheckSettings } from '../gateway/health/checks.ts';
import type { MonitorSettings } from '../gateway/health/clusterMonitor.ts';
import type { HandshakeCookieOptions } from '../gateway/pages/handshakeCookies.ts';
import type { ReplaySettings } from '../gateway/replay/replayJob.ts';
import type { UpstreamOptions } from '../gateway/upstreams/upstreams.ts';
import type { ClusterPolicy } from '../kinds/engineCluster/clusterPolicy.ts';
import { ClusterAddresses } from '../model/clusterAddresses.ts';
import { GroupBindings } from '../model/groupBindings.ts';
import type { ProductNames } from '../model/names.ts';
import type { DeletionGuardSettings } from '../operator/reconcile/deletionGuard.ts';
import { STATEMENT_PATH } from '../routing/proxiedPaths.ts';
import { requestKeyOf } from '../routing/requestKey.ts';
import type { RuleCompilerOptions } from '../rules/ruleCompiler.ts';
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
    defaultRoutingGroup: routing.defaultRoutingGroup,
    strategy: routing.strategy,
    groupStrategies: byGroup(routing.groups, ({ strategy }) => strategy),
    affinity: requestKeyOf(routing.affinity.by),
    groupAffinities: byGroup(routing.groups, ({ affinity }) =>
      affinity.by === null ? null : requestKeyOf(affinity.by),
    ),
    asyncTimeout: routing.asyncTimeout,
    forwardedHeadersEnabled: routing.forwardedHeadersEnabled,
    retrySubmissions: routing.retrySubmissions,
    statementErrors: routing.statementErrors,
    explainHeader: routing.explainHeader,
    propagateErrors: config.routingRules.rulesExternalConfiguration.propagateErrors,
    cancelQueryOnDisconnect: routing.cancelQueryOnDisconnect,
    includeClusterHostInResponse: config.includeClusterHostInResponse,
    maxAnalyzedBody: Math.min(config.requestAnalyzerConfig.maxBodySize, MAX_ANALYZED_LENGTH),
    maxBodySize: config.server.maxBodySize,
    clientStallTimeout: config.serverConfig['http-server.net.max-idle-time'],
    ownerGoneAfter: OWNER_GONE_AFTER_MS,
    ownerTakeover: routing.ownerTakeover,
    askClusters: routing.askClusters,
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
  const { routingPaths, deletePaths, lifetime } = oauth2GatewayCookieConfiguration;
  return { secret: cookieSigningSecret, prefix: stickyCookiePrefix, routingPaths, deletePaths, lifetime };
}

type Groups = GatewayConfig['routing']['groups'];

function byGroup<T>(groups: Groups, read: (group: Groups[string]) => T | null): ReadonlyMap<string, T> {
  const values = Object.entries(groups).map(([name, group]) => [name, read(group)] as const);
  return new Map(values.filter((each): each is [string, T] => each[1] !== null));
}

/** Limits of the connections to clusters. */
export function upstreamOptions(config: GatewayConfig): Omit<UpstreamOptions, 'tls'> {
  const client = httpClientSettings(config, 'proxy');
  return {
    connections: client.maxConnectionsPerServer,
    maxQueued: client.maxRequestsQueuedPerDestination,
    connectTimeout: client.connectTimeout,
    bodyTimeout: client.requestTimeout ?? 0,
    idleTimeout: client.idleTimeout,
    maxHeaderSize: config.serverConfig['http-server.max-response-header-size'],
  };
}

/** Options of the external rules service, or null (docs/rules.md#an-external-rules-service). */
export function externalRulesOptions(config: GatewayConfig): Omit<ExternalRulesOptions, 'ownCookies' | 'tls'> | null {
  const { rulesType, rulesEngineEnabled, rulesExternalConfiguration } = config.routingRules;
  const url = rulesExternalConfiguration.urlPath;
  if (rulesType !== 'EXTERNAL' || rulesEngineEnabled === false || url === null) return null;
  const client = httpClientSettings(config, 'router');
  return {
    url,
    needsAnalysis: config.requestAnalyzerConfig.analyzeRequest,
    connectTimeout: client.connectTimeout,
    requestTimeout: config.serverConfig['router.http-client.request-timeout'],
    idleTimeout: client.idleTimeout,
    connections: client.maxConnectionsPerServer,
    maxQueued: client.maxRequestsQueuedPerDestination,
    maxResponseSize: client.maxResponseContentLength,
    settings: config.routingRules.rulesExternalConfiguration,
  };
}

/** Defaults of health checks. */
export function monitorSettings({ monitor, clusterStatsConfiguration }: GatewayConfig): MonitorSettings {
  return {
    type: clusterStatsConfiguration.monitorType,
    interval: monitor.taskDelay,
    timeout: monitor.timeout,
    failureThreshold: monitor.failureThreshold,
    successThreshold: monitor.successThreshold,
    serverErrorThreshold: monitor.serverErrorThreshold,
    baseEjectionTime: monitor.baseEjectionTime,
    maxEjectionTime: monitor.maxEjectionTime,
    maxEjectionPercent: monitor.maxEjectionPercent,
  };
}

export function checkSettings(config: GatewayConfig): CheckSettings {
  const { monitor, backendState } = config;
  return {
    retries: monitor.retries,
    queryTimeout: monitor.queryTimeout,
    metricsEndpoint: monitor.metricsEndpoint,
    runningQueriesMetric: monitor.runningQueriesMetricName,
    queuedQueriesMetric: monitor.queuedQueriesMetricName,
    metricMinimums: monitor.metricMinimumValues,
    metricMaximums: monitor.metricMaximumValues,
    forwardedProto: backendState?.xForwardedProtoHeader ?? false,
    maxResponse: httpClientSettings(config, 'monitor').maxResponseContentLength,
  };
}

export function historySettings({ dataStore, queryHistory }: GatewayConfig): HistorySettings {
  return {
    enabled: dataStore.queryHistoryEnabled,
    maxTextSize: queryHistory.maxTextSize,
    redact: queryHistory.redact,
    bufferSize: queryHistory.bufferSize,
    flushIntervalMs: queryHistory.flushInterval,
  };
}

/** Rights of the authors of resources. */
export function clusterPolicy({ resources }: GatewayConfig): ClusterPolicy {
  const { source, allowedAddresses, groups } = resources;
  return {
    // Authors of other sources operate the gateway; engines on the same machine are theirs.
    addresses: new ClusterAddresses({ allowed: allowedAddresses, loopback: source !== 'kubernetes' }),
    groups: new GroupBindings(groups),
  };
}

export function ruleCompilerOptions({
  routingRules,
  requestAnalyzerConfig,
}: GatewayConfig): Pick<
  RuleCompilerOptions,
  | 'rulesEngineEnabled'
  | 'rulesType'
  | 'analyzeRequest'
  | 'differenceWarnings'
  | 'onRuleError'
  | 'onFileError'
  | 'limits'
> {
  return {
    rulesEngineEnabled: routingRules.rulesEngineEnabled ?? undefined,
    rulesType: routingRules.rulesType,
    analyzeRequest: requestAnalyzerConfig.analyzeRequest,
    differenceWarnings: routingRules.differenceWarnings,
    onRuleError: routingRules.onRuleError,
    onFileError: routingRules.onFileError,
    limits: { steps: routingRules.maxSteps, time: routingRules.decisionTimeout },
  };
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
