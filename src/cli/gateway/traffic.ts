import { ownCookies } from '../../api/auth/cookies.ts';
import { keySource } from '../../api/auth/openAuthentication.ts';
import { sessionKeys } from '../../api/auth/sessionKeys.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import { DataPlane } from '../../gateway/dataPlane.ts';
import type { QueueOptions } from '../../gateway/dataPlaneComposition.ts';
import { ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import type { HealthMonitors } from '../../gateway/health/healthMonitors.ts';
import { defaultStickinessOptions } from '../../gateway/ownership/stickiness.ts';
import { QueueKey } from '../../gateway/queue/queueKey.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import type { Tracing } from '../../gateway/tracing/openTelemetry.ts';
import type { ReviewToken } from '../../gateway/user/kubernetesTokens.ts';
import { EXCHANGE_TIMEOUT_MS } from '../../gateway/user/tokenExchange.ts';
import { userAndQueryAnalyzer } from '../../gateway/user/userAndQueryAnalyzer.ts';
import { UserExtractor } from '../../gateway/user/userExtractor.ts';
import { compileWholeMatch } from '../../model/regex/wholeMatch.ts';
import { countedCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import { dataPlaneSettings, externalRulesOptions, handshakeCookieOptions, upstreamOptions } from '../settings.ts';
import type { AdmissionParts } from './admission.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';
import type { CallerIdentity } from './management.ts';
import type { Storage } from './storage.ts';

/** Creates the client of the external rules service, or null. */
export function openExternalRules(context: GatewayContext, tls: ClusterTls): ExternalRulesClient | null {
  const { config, names, clock, logger, metrics, onClose } = context;
  const options = externalRulesOptions(config);
  if (options === null) return null;
  const client = new ExternalRulesClient(
    { names, clock, logger, registry: metrics },
    { ...options, ownCookies: ownCookies(names), tls },
  );
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

/** Warning of the log if queued queries cannot be stored. */
const HOLD_ONLY =
  'queries that have to wait for a limit are held for queue.hold and then refused, as the replicas share no secret that encrypts them in the database: set admission.secret, or authentication.session.secret (docs/limits.md, The queue)';

/**
 * Options of the stored queue. Replicas share a secret, or the key of sessions; without one, only a private database
 * (SQLite) stores queries, for the lifetime of this process. Null: disabled.
 */
export async function openQueue(
  { config, replica, logger }: GatewayContext,
  { queuedQueries, dialect }: Storage['store'],
): Promise<QueueOptions | null> {
  const { secret } = config.admission;
  if (secret !== null) return { repository: queuedQueries, key: new QueueKey(secret), replica };
  const source = keySource(config.authentication);
  if (source === null && dialect !== 'sqlite') {
    logger.warn({ key: 'admission.secret' }, HOLD_ONLY);
    return null;
  }
  const { seal } = await sessionKeys(source);
  return { repository: queuedQueries, key: new QueueKey(seal), replica };
}

/** Creates the data plane with its queue; `start` it before its first request. Its owner closes it. */
export async function openDataPlane(
  context: GatewayContext,
  { store, history, queryOutcomes }: Storage,
  { table, operator }: Control,
  { admission, queue, runningQueries }: AdmissionParts & { readonly queue: QueueOptions | null },
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
  const analyzer = userAndQueryAnalyzer({
    ...{ users, certificates: certificates?.users ?? null, mapping, groups, analyze, logger },
  });
  return new DataPlane(
    {
      names,
      table,
      store,
      history,
      runningQueries,
      outcomes: queryOutcomes,
      tracing,
      analyzer,
      mapping: mapping === null ? null : { users: mapping, identity: (request) => analyzer.identity(request) },
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
    },
    {
      additionalStatementPaths: config.additionalStatementPaths,
      extraWhitelistPaths: config.extraWhitelistPaths.map(compileWholeMatch),
      trustPeer,
      certificateHeader: config.server.clientCertificateHeader,
      certificates,
      heldAudiences: heldAudiences(config),
      ownCookies: ownCookies(names),
      handshakeCookies: handshakeCookieOptions(config, names),
      enginePages: config.server.enginePages ?? 'proxy',
      upstream: { ...upstreamOptions(config), tls },
      stickiness: defaultStickinessOptions,
      settings: dataPlaneSettings(config),
    },
  );
}

/** Audiences of service account tokens that are not forwarded to clusters; null: all are forwarded. */
function heldAudiences({ requestAnalyzerConfig: { kubernetesTokens } }: GatewayConfig): readonly string[] | null {
  return kubernetesTokens === null || kubernetesTokens.forward ? null : kubernetesTokens.audiences;
}

/** Client of the API server for reviews of service account tokens, or null. */
async function tokenReviews({ config, metrics }: GatewayContext): Promise<ReviewToken | null> {
  const { kubernetesTokens } = config.requestAnalyzerConfig;
  if (kubernetesTokens === null) return null;
  // The client library takes half a second to load.
  const { loadKubeConfig } = await import('../../operator/sources/kubernetes/kubeConfig.ts');
  const { KubeRequests } = await import('../../operator/sources/kubernetes/kubeRequests.ts');
  const { reviewToken } = await import('../../api/auth/kubernetesAccess.ts');
  const requests = new KubeRequests(loadKubeConfig(config.resources.kubeconfig), countedCalls(metrics));
  const { audiences, timeout } = kubernetesTokens;
  return (token) => reviewToken(requests, token, audiences, timeout);
}
