import { hostname } from 'node:os';
import { LimitCounters } from '../../admission/limitCounters.ts';
import type { WaitingQueriesCount } from '../../api/apiContext.ts';
import { ownCookies } from '../../api/auth/cookies.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { httpClientSettings } from '../../config/httpClient.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import { AdmissionMetrics } from '../../gateway/admission/admissionMetrics.ts';
import { groupQueueCounter } from '../../gateway/admission/limitDemands.ts';
import { LimitedAdmission } from '../../gateway/admission/limitedAdmission.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import { DataPlane, type QueueOptions } from '../../gateway/dataPlane.ts';
import { ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import { CheckClient, healthChecks } from '../../gateway/health/checks.ts';
import { HealthMonitors } from '../../gateway/health/healthMonitors.ts';
import { defaultStickinessOptions } from '../../gateway/ownership/stickiness.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import type { Tracing } from '../../gateway/tracing/openTelemetry.ts';
import { EXCHANGE_TIMEOUT_MS, type ReviewToken } from '../../gateway/user/tokens.ts';
import { UserExtractor, userAndQueryAnalyzer } from '../../gateway/user/userExtractor.ts';
import { ROUTING_GROUP } from '../../kinds/routingGroup/spec.ts';
import { compileWholeMatch } from '../../model/regex/wholeMatch.ts';
import { countedCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import { isSameEngine } from '../../routing/routingTable.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import {
  checkSettings,
  dataPlaneSettings,
  externalRulesOptions,
  handshakeCookieOptions,
  monitorSettings,
} from '../settings.ts';
import type { Control, GatewayContext, Storage } from './context.ts';
import type { CallerIdentity } from './management.ts';

/** Creates the client of the external rules service, or null. */
export function openExternalRules(context: GatewayContext, tls: ClusterTls): ExternalRulesClient | null {
  const { config, names, clock, logger, metrics, onClose } = context;
  const options = externalRulesOptions(config);
  if (options === null) return null;
  const client = new ExternalRulesClient(names, clock, logger, metrics, {
    ...options,
    ownCookies: ownCookies(names),
    tls,
  });
  onClose(() => client.close());
  return client;
}

/** Parts of the data plane that reach beyond it. */
interface Outside {
  readonly monitors: HealthMonitors;
  readonly analyze: AnalyzeLongRequest;
  readonly bodies: RequestBodies;
  readonly externalRules: ExternalRulesClient | null;
  readonly tls: ClusterTls;
  readonly tracing: Tracing | null;
}

/** Creates the data plane with its queue; `start` it before its first request. Its owner closes it. */
export async function openDataPlane(
  context: GatewayContext,
  { store, history, queryOutcomes, runningQueries, estimates }: Storage,
  { table, operator }: Control,
  { admission, queue }: AdmissionParts & { readonly queue: QueueOptions },
  { certificates, mapping, groups }: CallerIdentity,
  outside: Outside,
): Promise<DataPlane> {
  const { config, names, trustPeer, logger, metrics, clock, random, onClose } = context;
  const { monitors, analyze, bodies, externalRules, tls, tracing } = outside;
  const users = new UserExtractor(config.requestAnalyzerConfig, {
    ...{ names, clock, logger, registry: metrics },
    exchangeTimeoutMs: EXCHANGE_TIMEOUT_MS,
    reviewToken: await tokenReviews(context),
  });
  onClose(() => users.close());
  const analyzer = userAndQueryAnalyzer(users, certificates?.users ?? null, mapping, groups, analyze, logger);
  return new DataPlane(
    {
      names,
      table,
      store,
      history,
      runningQueries,
      outcomes: queryOutcomes,
      estimates,
      tracing,
      analyzer,
      mapping: mapping === null ? null : { users: mapping, identity: analyzer.identity },
      externalRules,
      isLoaded: () => operator.controller.isLoaded,
      admission,
      queue,
      bodies,
      logger,
      registry: metrics,
      clock,
      random,
      reports: monitors,
      onObservation: ({ cluster, honoured, message }) =>
        operator.controller.reportForwardedHeaders(cluster, { ok: honoured, message }),
      onQuarantined: (group, note) => operator.recordWarning(ROUTING_GROUP, group, 'StatementQuarantined', note),
    },
    {
      additionalStatementPaths: config.additionalStatementPaths,
      extraWhitelistPaths: config.extraWhitelistPaths.map(compileWholeMatch),
      trustPeer,
      certificateHeader: config.server.clientCertificateHeader,
      certificates,
      localAudiences: localAudiences(config),
      ownCookies: ownCookies(names),
      handshakeCookies: handshakeCookieOptions(config, names),
      enginePages: config.server.enginePages ?? 'proxy',
      upstream: {
        ...httpClientSettings(config, 'proxy'),
        maxHeaderSize: config.serverConfig['http-server.max-response-header-size'],
        tls,
      },
      stickiness: defaultStickinessOptions,
      settings: dataPlaneSettings(config),
    },
  );
}

/** Audiences of service account tokens that are not forwarded to clusters; null: all are forwarded. */
function localAudiences({ requestAnalyzerConfig: { kubernetesTokens } }: GatewayConfig): readonly string[] | null {
  return kubernetesTokens === null || kubernetesTokens.forward ? null : kubernetesTokens.audiences;
}

/** Client of the API server for reviews of service account tokens, or null. */
async function tokenReviews({ config, metrics }: GatewayContext): Promise<ReviewToken | null> {
  const { kubernetesTokens } = config.requestAnalyzerConfig;
  if (kubernetesTokens === null) return null;
  // The client library takes half a second to load.
  const { loadKubeConfig } = await import('../../operator/sources/kubernetes/kubeConfig.ts');
  const { KubeRequests } = await import('../../operator/sources/kubernetes/kubeApi.ts');
  const { reviewToken } = await import('../../api/auth/kubernetesAccess.ts');
  const requests = new KubeRequests(loadKubeConfig(config.resources.kubeconfig), countedCalls(metrics));
  const { audiences, timeout } = kubernetesTokens;
  return (token) => reviewToken(requests, token, audiences, timeout);
}

const MAINTENANCE_MS = 1_000;

/** Admission of submissions, and counts of queued ones. */
export interface AdmissionParts {
  readonly admission: Admission;
  /** Number of submissions queued for a group, on all replicas. */
  readonly countWaiting: WaitingQueriesCount;
}

/** Creates the admission: an available cluster, and slots of limits. */
export function openAdmission(
  context: GatewayContext,
  { table, counts, operator }: Pick<Control, 'table' | 'counts' | 'operator'>,
  { store, runningQueries, estimates }: Pick<Storage, 'store' | 'runningQueries' | 'estimates'>,
): AdmissionParts {
  const { config, names, replica, logger, metrics, clock, random, onClose } = context;
  const admitsWhenAway = config.admission.onDatabaseUnavailable === 'admit';
  const counters = new LimitCounters(store.limitCounters, replica, admitsWhenAway, clock, logger);
  runningQueries.connect((one, other) => isSameEngine(table.current, one, other), counters);
  const limits = new LimitedAdmission({
    ...{ names, table, counters, counts, estimates, clock, random },
    metrics: new AdmissionMetrics(metrics, table, counters, clock),
    defaultGroup: config.routing.defaultRoutingGroup,
  });
  const maintaining = setInterval(() => {
    limits.refresh();
    void counters.maintain(operator.leadership.fence !== null, (queryId, cluster) => limits.isLost(queryId, cluster));
  }, MAINTENANCE_MS).unref();
  onClose(() => {
    clearInterval(maintaining);
    return counters.stop();
  });
  return {
    admission: limits,
    countWaiting: async (group) => {
      const key = groupQueueCounter(group);
      await counters.refresh([key]);
      return { count: counters.use(key), complete: !counters.isAway };
    },
  };
}

/** Creates the health checks of all clusters; `start` them later. */
export function openMonitors(context: GatewayContext, { table, operator }: Control, tls: ClusterTls): HealthMonitors {
  const { config, names, logger, metrics, clock, random, onClose } = context;
  const client = new CheckClient(httpClientSettings(config, 'monitor').connectTimeout, tls);
  onClose(() => client.close());
  const kinds = healthChecks(client, names, checkSettings(config));
  const credentials = {
    configured: config.backendState,
    // Authors of other sources operate the gateway.
    trustsResources: config.resources.source !== 'kubernetes',
    ofCluster: (cluster: string, proxyTo: string) => operator.healthCredentials(cluster, proxyTo),
    report: operator.controller.reportHealthCredentials.bind(operator.controller),
  };
  const monitors = new HealthMonitors(
    { table, kinds, credentials, logger, registry: metrics, clock, random },
    monitorSettings(config),
  );
  onClose(() => monitors.stop());
  return monitors;
}

/** Starts tracing; null if disabled: its modules are not loaded then. */
export async function openTracing(context: GatewayContext): Promise<Tracing | null> {
  const { config, version, names, logger, clock, onClose } = context;
  const { serverConfig } = config;
  if (!serverConfig['tracing.enabled']) return null;
  const { openTelemetryTracing } = await import('../../gateway/tracing/openTelemetry.ts');
  const tracing = openTelemetryTracing({
    endpoint: serverConfig['otel.exporter.endpoint'],
    samplingRatio: serverConfig['tracing.sampling-ratio'],
    serviceName: names.gatewayPath.slice(1),
    version,
    instance: hostname(),
    logger,
    clock,
  });
  onClose(() => tracing.close());
  return tracing;
}
