import { RE2JS } from 're2js';
import { ownCookies } from '../../api/auth/cookies.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import type { RequestBodies } from '../../gateway/bodies/requestBodies.ts';
import { createDataPlane, type DataPlane } from '../../gateway/dataPlane.ts';
import type { DataPlaneOptions } from '../../gateway/dataPlaneComposition.ts';
import { type ExternalRules, ExternalRulesClient } from '../../gateway/external/externalRules.ts';
import type { HealthMonitors } from '../../gateway/health/healthMonitors.ts';
import type { RunningQueries } from '../../gateway/ownership/runningQueries.ts';
import { defaultStickinessOptions } from '../../gateway/ownership/stickiness.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import type { Tracing } from '../../gateway/tracing/requestTrace.ts';
import { EXCHANGE_TIMEOUT_MS } from '../../gateway/user/tokenExchange.ts';
import { userAndQueryAnalyzer } from '../../gateway/user/userAndQueryAnalyzer.ts';
import { UserExtractor } from '../../gateway/user/userExtractor.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import {
  dataPlaneSettings,
  externalRulesOptions,
  handshakeCookieOptions,
  pageCookieOptions,
  upstreamOptions,
} from '../settings.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';
import type { Storage } from './storage.ts';

/** Makes the client of the external rules service; null where rules and header decide. */
export function openExternalRules(context: GatewayContext, tls: ClusterTls): ExternalRulesClient | null {
  const { config, current, names, clock, logger, metrics, onClose } = context;
  const options = externalRulesOptions(config, current);
  if (options === null) return null;
  const client = new ExternalRulesClient(
    { names, clock, logger, registry: metrics },
    { ...options, ownCookies: [...ownCookies(names), names.pageCookie], tls },
  );
  onClose(() => client.close());
  return client;
}

/** What the data plane depends on. */
export interface DataPlaneDependencies {
  readonly storage: Storage;
  readonly control: Control;
  readonly monitors: HealthMonitors;
  readonly analyze: AnalyzeLongRequest;
  /** Decides when submissions are sent on. */
  readonly admission: Admission;
  /** Notes which queries clients follow. */
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly bodies: RequestBodies;
  /** Null: certificates name no users. */
  readonly certificates: DataPlaneOptions['certificates'];
  /** Null: rules and header decide. */
  readonly externalRules: ExternalRules | null;
  /** TLS toward clusters. */
  readonly tls: ClusterTls;
  /** Null: requests are not traced. */
  readonly tracing: Tracing | null;
}

/** Makes the data plane; `start` it before its first request. Its owner closes it. */
export function openDataPlane(
  context: GatewayContext,
  {
    storage: { store, history },
    control: { table, operator },
    monitors,
    analyze,
    admission,
    runningQueries,
    bodies,
    certificates,
    externalRules,
    tls,
    tracing,
  }: DataPlaneDependencies,
): DataPlane {
  const { config, names, trustPeer, logger, metrics, clock, random, onClose } = context;
  const users = new UserExtractor(config.requestAnalyzerConfig, {
    ...{ names, clock, logger, registry: metrics },
    exchangeTimeoutMs: EXCHANGE_TIMEOUT_MS,
  });
  onClose(() => users.close());
  const dataPlane = createDataPlane(
    {
      names,
      table,
      store,
      history,
      runningQueries,
      tracing,
      analyzer: userAndQueryAnalyzer({ users, certificates: certificates?.users ?? null, analyze, logger }),
      externalRules,
      isLoaded: () => operator.controller.isLoaded,
      admission,
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
      extraWhitelistPaths: config.extraWhitelistPaths.map((pattern) => RE2JS.compile(pattern)),
      trustPeer,
      certificateHeader: config.server.clientCertificateHeader,
      certificates,
      ownCookies: ownCookies(names),
      prefixSticky: config.routing.prefixSticky,
      handshakeCookies: handshakeCookieOptions(config, names),
      enginePages: config.server.enginePages ?? 'proxy',
      pageCookies: pageCookieOptions(config),
      upstream: { ...upstreamOptions(config), tls },
      stickiness: defaultStickinessOptions,
      settings: dataPlaneSettings(config),
    },
  );
  context.onChange((next) => dataPlane.configure(dataPlaneSettings(next)));
  return dataPlane;
}
