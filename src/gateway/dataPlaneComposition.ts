import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { ClusterChooser } from '../routing/clusterChooser.ts';
import { type PathPattern, ProxiedPaths } from '../routing/proxiedPaths.ts';
import { routers } from '../routing/routers/routers.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import type { Admission } from './admission/admission.ts';
import type { RequestAnalyzer } from './analysis/requestAnalyzer.ts';
import type { RequestBodies } from './bodies/requestBodies.ts';
import type { DataPlaneSettings } from './dataPlaneSettings.ts';
import { ClusterHeaders } from './exchanges/clusterHeaders.ts';
import type { ClusterReports } from './exchanges/clusterReports.ts';
import type { ExchangeDependencies } from './exchanges/exchangeDependencies.ts';
import { QueryRecorder } from './exchanges/queryRecorder.ts';
import { ResponseHeaders } from './exchanges/responseHeaders.ts';
import { ExternalRouter } from './external/externalRouter.ts';
import type { ExternalRules } from './external/externalRules.ts';
import { ForwardedCheck, type ForwardedHeadersObservation } from './headers/forwardedCheck.ts';
import { ownCookieNames } from './headers/ownCookies.ts';
import { RequestHeaders } from './headers/requestHeaders.ts';
import type { TrustPeer } from './headers/trustedProxies.ts';
import { DataPlaneMetrics } from './metrics/dataPlaneMetrics.ts';
import { ClusterKeys } from './ownership/clusterKeys.ts';
import { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import { Stickiness, type StickinessOptions } from './ownership/stickiness.ts';
import { Transactions } from './ownership/transactions.ts';
import { BrowserPlaces, type PageCookieOptions } from './pages/browserPlace.ts';
import { ClusterIdentities } from './pages/clusterIdentities.ts';
import { EngineCookieNames } from './pages/engineCookieName.ts';
import { EngineCookies } from './pages/engineCookies.ts';
import { type HandshakeCookieOptions, HandshakeCookies } from './pages/handshakeCookies.ts';
import { EnginePages, type EnginePagesMode } from './requests/enginePages.ts';
import { FollowUps } from './requests/followUps.ts';
import { OtherRequests } from './requests/otherRequests.ts';
import { OwnAnswers } from './requests/ownAnswers.ts';
import { PrefixedRequests } from './requests/prefixedRequests.ts';
import { RequestSteps } from './requests/requestSteps.ts';
import { Submissions } from './requests/submissions.ts';
import type { Tracing } from './tracing/requestTrace.ts';
import { type UpstreamOptions, Upstreams } from './upstreams/upstreams.ts';

/** What the data plane works with. */
export interface DataPlaneDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'transactions' | 'history'>;
  readonly history: Pick<HistoryWriter, 'add' | 'findBuffered' | 'whenWritten'>;
  /** Null: requests are not traced. */
  readonly tracing: Tracing | null;
  /** Notes which queries clients follow. */
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly analyzer: RequestAnalyzer;
  /** Null: rules and header decide. */
  readonly externalRules: ExternalRules | null;
  /** Decides when submissions are sent on. */
  readonly admission: Admission;
  /** Whether the resource source or the database was read, so that a missing cluster is a final answer. */
  readonly isLoaded: () => boolean;
  /** Reads bodies of requests. */
  readonly bodies: RequestBodies;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  /** Takes what real requests find out about clusters. */
  readonly reports: ClusterReports;
  /** Takes changes of whether a cluster honours forwarded headers. */
  readonly onObservation: (observation: ForwardedHeadersObservation) => void;
}

/** What does not change while the data plane runs. */
export interface DataPlaneOptions {
  readonly additionalStatementPaths: readonly string[];
  readonly extraWhitelistPaths: readonly PathPattern[];
  readonly trustPeer: TrustPeer;
  /** Cookies of the gateway itself: never sent to a cluster. */
  readonly ownCookies: readonly string[];
  /** `routing.prefixSticky`: follow-up URLs carry the key of their cluster. */
  readonly prefixSticky: boolean;
  /** Cookies of OAuth2 logins; null for none. */
  readonly handshakeCookies: HandshakeCookieOptions | null;
  /** `server.enginePages`. */
  readonly enginePages: EnginePagesMode;
  /** Keeps browsers on one cluster's pages, and cookies of clusters apart; null for neither. */
  readonly pageCookies: PageCookieOptions | null;
  readonly upstream: UpstreamOptions;
  readonly stickiness: StickinessOptions;
  readonly settings: DataPlaneSettings;
}

/** The steps of the data plane, and what has to be started, swept and closed with them. */
export interface DataPlaneSteps {
  readonly paths: ProxiedPaths;
  readonly steps: RequestSteps;
  readonly answers: OwnAnswers;
  readonly enginePages: EnginePages;
  readonly submissions: Submissions;
  readonly followUps: FollowUps;
  readonly others: OtherRequests;
  /** Null unless `routing.prefixSticky`. */
  readonly prefixed: PrefixedRequests | null;
  readonly upstreams: Upstreams;
  readonly chooser: ClusterChooser;
  readonly stickiness: Stickiness;
  readonly transactions: Transactions;
}

/**
 * Makes the steps of the data plane, each with what it works with: the one place that knows all of them.
 * @param settings the current ones
 */
export function composeDataPlane(
  dependencies: DataPlaneDependencies,
  options: DataPlaneOptions,
  settings: () => DataPlaneSettings,
): DataPlaneSteps {
  const { names, table, clock, logger, store, history, runningQueries, registry, analyzer, bodies } = dependencies;
  const upstreams = new Upstreams(options.upstream, clock);
  const metrics = new DataPlaneMetrics(registry, table, upstreams);
  const steps = new RequestSteps(logger);
  const clients = new RequestHeaders({
    names,
    forwardedHeadersEnabled: () => settings().forwardedHeadersEnabled,
    trustPeer: options.trustPeer,
    ownCookies: [...options.ownCookies, names.pageCookie],
    tracing: dependencies.tracing !== null,
  });
  const answers = new OwnAnswers({ names, headers: clients, metrics, logger, clock, settings });

  const keys = new ClusterKeys(table);
  const prefixes = options.prefixSticky ? keys : null;
  const handshakes =
    options.handshakeCookies === null ? null : new HandshakeCookies(options.handshakeCookies, keys, clock);
  const { places, engineCookies } = pagesOf(dependencies, options, clients);
  const enginePages = new EnginePages({ mode: options.enginePages, answers, headers: clients, table, places });

  const stickiness = new Stickiness(
    {
      store,
      history,
      table,
      upstream: (proxyTo) => upstreams.peek(proxyTo),
      takeover: () => settings().ownerTakeover,
      logger,
      clock,
    },
    options.stickiness,
  );
  const transactions = new Transactions({ names, store: store.transactions, logger, clock }, options.stickiness);
  const ownership = new OwnershipReport(registry, logger, clock);

  const service = dependencies.externalRules;
  const chain = routers({
    names,
    defaultGroup: () => settings().defaultRoutingGroup,
    external: service === null ? null : new ExternalRouter(service, () => settings().propagateErrors),
  });
  const chooser = new ClusterChooser(settings, { random: dependencies.random, monotonic: () => clock.monotonic() });

  const recorder = new QueryRecorder({ names, history, logger, clock, settings });
  const exchange: ExchangeDependencies = {
    names,
    table,
    settings,
    upstreams,
    bodies,
    clusterHeaders: new ClusterHeaders({ headers: clients, prefixes, engineCookies, settings }),
    answerHeaders: new ResponseHeaders({
      ownCookies: ownCookieNames([...options.ownCookies, names.clusterHostCookie], [names.stickyCookiePrefix]),
      engineCookies,
      sandboxed: options.enginePages !== 'proxy',
    }),
    handshakes,
    answers,
    reports: dependencies.reports,
    metrics,
  };
  const submissions = new Submissions({
    steps,
    names,
    table,
    settings,
    bodies,
    analyzer,
    clients,
    routers: chain,
    sendsText: service?.needsAnalysis === true,
    transactions,
    stickiness,
    admission: dependencies.admission,
    answers,
    metrics,
    recorder,
    exchange: {
      ...exchange,
      chooser,
      stickiness,
      transactions,
      ownership,
      runningQueries,
      forwardedCheck: new ForwardedCheck(clock, dependencies.onObservation),
      clients,
      recorder,
    },
  });
  const followUps = new FollowUps({
    steps,
    table,
    settings,
    stickiness,
    ownership,
    upstreams,
    enginePages,
    answers,
    metrics,
    clock,
    exchange: { ...exchange, places, logger, stickiness, transactions, runningQueries },
  });
  const others = new OtherRequests({
    steps,
    table,
    settings,
    handshakes,
    places,
    analyzer,
    clients,
    routers: chain,
    chooser,
    upstreams,
    enginePages,
    answers,
    exchange: { ...exchange, places, logger, chooser },
  });
  const paths = new ProxiedPaths(options);
  const prefixed =
    prefixes === null
      ? null
      : new PrefixedRequests({ keys, paths, stickiness, table, places, steps, answers, metrics, followUps, others });
  return {
    paths,
    steps,
    answers,
    enginePages,
    submissions,
    followUps,
    others,
    prefixed,
    upstreams,
    chooser,
    stickiness,
    transactions,
  };
}

/** What keeps browsers on one cluster's pages, and cookies of clusters apart. */
function pagesOf(
  { names, table, clock }: Pick<DataPlaneDependencies, 'names' | 'table' | 'clock'>,
  { pageCookies }: Pick<DataPlaneOptions, 'pageCookies'>,
  headers: RequestHeaders,
): { readonly places: BrowserPlaces | null; readonly engineCookies: EngineCookies | null } {
  if (pageCookies === null) return { places: null, engineCookies: null };
  const identities = new ClusterIdentities(pageCookies.secret, table);
  return {
    places: new BrowserPlaces(pageCookies, { name: names.pageCookie, identities, headers, clock }),
    engineCookies: new EngineCookies(new EngineCookieNames(names.engineCookiePrefix), identities, names.product),
  };
}
