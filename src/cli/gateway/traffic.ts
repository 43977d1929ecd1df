import { RE2JS } from 're2js';
import { ownCookies } from '../../api/auth/cookies.ts';
import { createDataPlane, type DataPlane } from '../../gateway/dataPlane.ts';
import type { HealthMonitors } from '../../gateway/healthMonitors.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import { requestAnalyzer } from '../../gateway/user/requestAnalyzer.ts';
import { UserExtractor } from '../../gateway/user/userExtractor.ts';
import type { AnalyzeRequest } from '../../sql/analyzeRequest.ts';
import { dataPlaneSettings, handshakeCookieOptions, upstreamOptions } from '../settings.ts';
import type { Control } from './control.ts';
import type { Frame } from './frame.ts';
import type { Storage } from './storage.ts';

/** Makes what proxies queries; `start` it before its first request. Its owner closes it. */
export function openDataPlane(
  frame: Frame,
  { store, history }: Storage,
  { table, operator }: Control,
  monitors: HealthMonitors,
  analyze: AnalyzeRequest,
  tls: ClusterTls,
): DataPlane {
  const { config, names, trustPeer, logger, metrics, clock, random, undo } = frame;
  const users = new UserExtractor(config.requestAnalyzerConfig, { names, clock, logger, registry: metrics });
  undo(() => users.close());
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
      prefixSticky: config.routing.prefixSticky,
      handshakeCookies: handshakeCookieOptions(config, names),
      upstream: { ...upstreamOptions(config), tls },
      settings: dataPlaneSettings(config),
    },
  );
  frame.onChange((next) => dataPlane.configure(dataPlaneSettings(next)));
  return dataPlane;
}
