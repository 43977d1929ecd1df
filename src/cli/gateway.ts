import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { RE2JS } from 're2js';
import { createApi } from '../api/api.ts';
import { ownCookies } from '../api/auth/cookies.ts';
import { openAuthentication } from '../api/auth/openAuthentication.ts';
import type { Environment } from '../config/environment.ts';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { httpClientSettings } from '../config/httpClient.ts';
import { createDataPlane } from '../gateway/dataPlane.ts';
import { requestExplanation } from '../gateway/explainRequest.ts';
import { HealthMonitors } from '../gateway/healthMonitors.ts';
import { InfoCheck, noopCheck } from '../gateway/infoCheck.ts';
import { localUsers } from '../gateway/localUsers.ts';
import { ruleFailureCounter } from '../gateway/ruleMetrics.ts';
import { trustPeers } from '../gateway/trustedProxies.ts';
import { requestAnalyzer } from '../gateway/user/requestAnalyzer.ts';
import { UserExtractor } from '../gateway/user/userExtractor.ts';
import { systemClock } from '../model/clock.ts';
import { productNames } from '../model/names.ts';
import { createOperator, type Operator } from '../operator/operator.ts';
import { RoutingRules } from '../operator/routingRules.ts';
import { RulesFileWatch } from '../operator/rulesFile/rulesFileWatch.ts';
import { STATEMENT_PATH } from '../routing/proxiedPaths.ts';
import { RoutingTableHolder } from '../routing/tableHolder.ts';
import { checkRulesFile } from '../rules/set/checkRules.ts';
import { createRuleCompiler } from '../rules/set/compiler.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../sql/analyzeRequest.ts';
import { createHistoryWriter } from '../store/historyWriter.ts';
import { startRetention } from '../store/retention.ts';
import { openStoreWaiting } from '../store/waitingStore.ts';
import { listen } from './listeners.ts';
import { gatewayReadiness } from './readiness.ts';
import {
  dataPlaneSettings,
  historySettings,
  monitorSettings,
  ruleCompilerOptions,
  upstreamOptions,
} from './settings.ts';

/** A gateway that runs. */
export interface RunningGateway {
  /** Address of proxied paths. */
  readonly url: string;
  /** Address of the API where it has a listener of its own. */
  readonly adminUrl: string | null;
  /** Takes settings that may change while it runs; the others are as at start. */
  configure(config: GatewayConfig): void;
  /** Stops cleanly: running answers finish within `server.drainTimeout`, the history is written, the lead given back. */
  stop(): Promise<void>;
}

/** What a gateway is started with. */
export interface GatewayOptions {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly logger: Logger;
  /** Variables for files that the configuration names. */
  readonly environment: Environment;
}

/** Time for the last batch of history at a clean stop; what is left then lies on disk for the next start. */
const FLUSH_TIMEOUT_MS = 10_000;

/** Databases named by `useSchema` whose connections are kept at once. */
const OPEN_SCHEMAS = 8;

/**
 * Makes all parts of the gateway, joins and starts them (docs/architecture.md).
 * @throws GatewayError for what the operator has to mend, such as a port that is taken; nothing is left running then
 */
export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const parts = new AsyncDisposableStack();
  try {
    return await startParts(options, parts);
  } catch (error) {
    await parts.disposeAsync();
    throw error;
  }
}

/** @param parts takes what has to be undone at the end, last first */
async function startParts(
  { config, version, logger, environment }: GatewayOptions,
  parts: AsyncDisposableStack,
): Promise<RunningGateway> {
  const clock = systemClock;
  const startedAt = clock.now();
  const random = Math.random;
  const names = productNames(config.protocol.productName);
  const metrics = new Registry();
  const trustPeer = trustPeers(config.serverConfig['http-server.process-forwarded'], config.server.trustedProxies);
  let current = config;
  let stopping = false;

  const store = await openStoreWaiting({
    jdbcUrl: config.dataStore.jdbcUrl,
    user: config.dataStore.user ?? undefined,
    password: config.dataStore.password ?? undefined,
    runMigrations: config.dataStore.runMigrationsEnabled,
    logger,
  });
  parts.defer(() => store.close());
  const history = createHistoryWriter({
    repository: store.history,
    settings: () => historySettings(current),
    spillDirectory: config.queryHistory.spillDirectory,
    logger,
    registry: metrics,
    clock,
  });
  parts.defer(() => history.close(FLUSH_TIMEOUT_MS));
  const table = new RoutingTableHolder();
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    live: () => ruleCompilerOptions(current),
    names,
    onRuleFailure: (failure) => {
      logger.warn(failure, 'a rule failed');
      if (failure.origin === 'resource') operator.controller.reportRuleFailure(failure.rule, failure.message);
    },
    countFailure: ruleFailureCounter(metrics),
    monotonic: () => clock.monotonic(),
  });
  const { analyzeRequest } = config.requestAnalyzerConfig;
  const ruleContext = { names, analyzeRequest };
  const { rulesType, rulesConfigPath } = config.routingRules;
  const rulesFile =
    rulesType === 'EXTERNAL' || rulesConfigPath === null
      ? null
      : new RulesFileWatch({
          path: rulesConfigPath,
          refreshPeriod: () => current.routingRules.rulesRefreshPeriod,
          check: (file) => checkRulesFile(file, ruleContext).problems,
          onChange: () => operator.controller.rulesFileChanged(),
          clock,
          logger,
        });
  parts.defer(() => rulesFile?.stop());
  // Before the operator, so that the first rule set has the file's rules; its listener is there by the first change.
  const operator: Operator = await createOperator({
    resources: config.resources,
    apiWrites: () => current.resources.apiWrites,
    allowedServiceNamespaces: () => current.resources.allowedServiceNamespaces,
    defaultRoutingGroup: config.routing.defaultRoutingGroup,
    store,
    table,
    compiler,
    rulesFile: () => rulesFile?.current ?? null,
    instance: `${hostname()}-${randomUUID()}`,
    clock,
    random,
    logger,
    metrics,
  });
  parts.defer(() => operator.stop());

  const infoCheck = new InfoCheck({
    retries: () => current.monitor.retries,
    connectTimeout: httpClientSettings(config, 'monitor').connectTimeout,
  });
  parts.defer(() => infoCheck.close());
  const monitors = new HealthMonitors(
    { table, kinds: { INFO_API: infoCheck, NOOP: noopCheck }, logger, registry: metrics, clock, random },
    monitorSettings(config),
  );
  parts.defer(() => monitors.stop());
  const users = new UserExtractor(config.requestAnalyzerConfig, { names, clock, logger, registry: metrics });
  parts.defer(() => users.close());
  const analyze = requestAnalysis({
    names,
    maxBodySize: () => current.requestAnalyzerConfig.maxBodySize,
    clientsUseV2Format: config.requestAnalyzerConfig.isClientsUseV2Format,
    cacheBytes: DEFAULT_CACHE_BYTES,
  });
  const dataPlane = createDataPlane(
    {
      names,
      table,
      store,
      history,
      analyzer: requestAnalyzer({ users, analyze, logger }),
      logger,
      registry: metrics,
      clock,
      random,
      connectionFailed: (cluster, baseUrl, reason) => monitors.connectionFailed(cluster, baseUrl, reason),
      onObservation: ({ cluster, honoured, message }) =>
        operator.controller.reportForwardedHeaders(cluster, { ok: honoured, message }),
    },
    {
      additionalStatementPaths: config.additionalStatementPaths,
      extraWhitelistPaths: config.extraWhitelistPaths.map((pattern) => RE2JS.compile(pattern)),
      trustPeer,
      ownCookies: ownCookies(names),
      upstream: upstreamOptions(config),
      settings: dataPlaneSettings(config),
    },
  );
  const readiness = gatewayReadiness({
    table,
    store,
    source: operator.source,
    leadership: operator.leadership,
    history,
    config,
    clock,
    stopping: () => stopping,
  });
  const resourceGroups = config.resourceGroups.enabled
    ? store.resourceGroups({ allowed: config.resourceGroups.allowedSchemas, maxOpen: OPEN_SCHEMAS })
    : null;
  parts.defer(async () => await resourceGroups?.close());
  const webapp = {
    history: store.history,
    queryCounts: store.queryCounts,
    exactMatchSelectors: store.exactMatchSelectors,
    clock,
    startedAt,
    disablePages: () => current.uiConfiguration.disablePages,
  };
  const authentication = await openAuthentication(config, {
    names,
    trustPeer,
    environment,
    kubernetes: async () => {
      const { loadKubeConfig, watchedNamespace } = await import('../operator/kubernetes/kubeConfig.ts');
      const kubeConfig = loadKubeConfig(config.resources.kubeconfig);
      return { kubeConfig, namespace: watchedNamespace(config.resources.namespace, kubeConfig) };
    },
    revocations: store.endedSessions,
    clock,
    logger,
  });
  const rules = {
    routingRules: new RoutingRules({
      source: operator.source,
      controller: operator.controller,
      file: rulesFile,
      rulesType,
      rulesEngineEnabled: config.routingRules.rulesEngineEnabled ?? undefined,
      context: ruleContext,
      apiWrites: () => current.resources.apiWrites,
    }),
    explain: requestExplanation(
      table,
      {
        names,
        statementPaths: [STATEMENT_PATH, ...config.additionalStatementPaths],
        analyzeRequest,
        analyze,
        userOf: localUsers(config.requestAnalyzerConfig, { names, clock, logger }),
      },
      () => current.routing.defaultRoutingGroup,
    ),
    history: store.history,
    buffered: (queryId: string) => history.buffered(queryId),
  };
  const api = await createApi(
    { registry: operator.registry, table, readiness, metrics, logger, authentication, resourceGroups, webapp, rules },
    { names, version, bodyLimit: config.server.maxApiBodySize },
  );

  parts.defer(() => api.close());
  const stopRetention = startRetention({
    store,
    historyHours: () => current.dataStore.queryHistoryHoursRetention,
    fence: () => operator.leadership.fence,
    logger,
    clock,
  });
  parts.defer(stopRetention);
  monitors.start();
  await rulesFile?.start();
  await operator.start();
  await dataPlane.start();
  parts.defer(() => dataPlane.close(0));
  const listeners = await listen(config, dataPlane, api.handler);
  logger.info({ url: listeners.url, adminUrl: listeners.adminUrl, version }, 'listening');

  return {
    url: listeners.url,
    adminUrl: listeners.adminUrl,
    configure(next) {
      current = next;
      dataPlane.configure(dataPlaneSettings(next));
      monitors.configure(monitorSettings(next));
      operator.controller.rulesFileChanged();
    },
    async stop() {
      stopping = true;
      const drained = listeners.drain();
      await dataPlane.close(config.server.drainTimeout);
      listeners.closeConnections();
      await drained;
      await parts.disposeAsync();
    },
  };
}
