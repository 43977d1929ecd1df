import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { ClusterChooser } from '../routing/clusterChooser.ts';
import { type PrefixedTarget, splitClusterKey } from '../routing/clusterKey.ts';
import {
  hasDotSegments,
  type PathPattern,
  ProxiedPaths,
  type RequestTarget,
  splitTarget,
} from '../routing/proxiedPaths.ts';
import { recognizeQueryId } from '../routing/queryId.ts';
import { ALLOWED_METHODS, type Refusal } from '../routing/refusal.ts';
import { routers } from '../routing/routers/routers.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import { type Admission, admitAll } from './admission/admission.ts';
import type { RequestAnalyzer } from './analysis/requestAnalyzer.ts';
import { announcedLength } from './bodies/body.ts';
import { bodyRefusal } from './bodies/bodyRefusal.ts';
import { type RequestBodies, unlimitedBodies } from './bodies/requestBodies.ts';
import type { DataPlaneContext, DataPlaneSettings, ProxiedRequest } from './dataPlaneContext.ts';
import { ResponseHeaders } from './exchanges/responseHeaders.ts';
import { ExternalRouter } from './external/externalRouter.ts';
import type { ExternalRules } from './external/externalRules.ts';
import { ForwardedCheck, type ForwardedHeadersObservation } from './headers/forwardedCheck.ts';
import { ownCookieNames } from './headers/ownCookies.ts';
import { RequestHeaders } from './headers/requestHeaders.ts';
import type { TrustPeer } from './headers/trustedProxies.ts';
import { DataPlaneMetrics, type RequestKind } from './metrics/dataPlaneMetrics.ts';
import { ClusterKeys } from './ownership/clusterKeys.ts';
import { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import { defaultStickinessOptions, Stickiness, type StickinessOptions } from './ownership/stickiness.ts';
import { Transactions } from './ownership/transactions.ts';
import { BrowserPlaces, type PageCookieOptions } from './pages/browserPlace.ts';
import { ClusterIdentities } from './pages/clusterIdentities.ts';
import { EngineCookieNames } from './pages/engineCookieName.ts';
import { EngineCookies } from './pages/engineCookies.ts';
import { type HandshakeCookieOptions, HandshakeCookies } from './pages/handshakeCookies.ts';
import { EnginePages, type EnginePagesMode } from './requests/enginePages.ts';
import { FollowUps } from './requests/followUps.ts';
import { OtherRequests } from './requests/otherRequests.ts';
import { answer, OwnAnswers } from './requests/ownAnswers.ts';
import { PrefixedRequests } from './requests/prefixedRequests.ts';
import { PREFIXED_METHODS } from './requests/prefixRouting.ts';
import { RequestSteps } from './requests/requestSteps.ts';
import { Submissions } from './requests/submissions.ts';
import type { Tracing } from './tracing/requestTrace.ts';
import { type UpstreamOptions, Upstreams } from './upstreams/upstreams.ts';

/** What the data plane works with. */
export interface DataPlaneDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'transactions' | 'history'>;
  readonly history: Pick<HistoryWriter, 'add' | 'buffered'>;
  /** Left out, requests are not traced. */
  readonly tracing?: Tracing | null;
  /** Told which queries clients follow; left out, nobody is. */
  readonly runningQueries?: RunningQueries;
  readonly analyzer: RequestAnalyzer;
  /** Null: rules and header decide. */
  readonly externalRules?: ExternalRules | null;
  /** Decides when submissions are sent on; left out, all are at once. */
  readonly admission?: Admission;
  /** Whether clusters are known at all; left out, they are from the start. */
  readonly isLoaded?: () => boolean;
  /** Reads bodies of requests; left out, without limits of memory and pace. */
  readonly bodies?: RequestBodies;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  /** A real request could not connect to a cluster; `HealthMonitors.connectionFailed`. */
  readonly connectionFailed?: (cluster: string, baseUrl: string, reason: string) => void;
  /** A real request on a statement path was answered 5xx or not at all; `HealthMonitors.serverFailed`. */
  readonly serverFailed?: (cluster: string, baseUrl: string, reason: string, inARow: number) => void;
  /** Told changes of whether a cluster honours forwarded headers. */
  readonly onObservation?: (observation: ForwardedHeadersObservation) => void;
}

/** What does not change while the data plane runs. */
export interface DataPlaneOptions {
  readonly additionalStatementPaths: readonly string[];
  readonly extraWhitelistPaths: readonly PathPattern[];
  readonly trustPeer: TrustPeer;
  /** Cookies of the gateway itself: never sent to a cluster. */
  readonly ownCookies: readonly string[];
  /** `routing.prefixSticky`: follow-up URLs carry the key of their cluster; false by default. */
  readonly prefixSticky?: boolean;
  /** Cookies of OAuth2 logins; null, the default, for none. */
  readonly handshakeCookies?: HandshakeCookieOptions | null;
  /** `server.enginePages`; `proxy` by default. */
  readonly enginePages?: EnginePagesMode;
  /** Keeps browsers on one cluster's pages, and cookies of clusters apart; null, the default, for neither. */
  readonly pageCookies?: PageCookieOptions | null;
  readonly upstream: UpstreamOptions;
  readonly stickiness?: Partial<StickinessOptions>;
  readonly settings: DataPlaneSettings;
}

/** The proxying half of the gateway (docs/routing.md). */
export interface DataPlane {
  /** Loads what the database knows of running queries. Never rejects. */
  start(): Promise<void>;
  /** Whether a request target is proxied; all others are the API's. */
  handles(rawUrl: string): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Takes changed settings for requests from now on. */
  configure(settings: Partial<DataPlaneSettings>): void;
  /** From now on submissions are answered 503 with Retry-After, which clients repeat elsewhere (a clean stop). */
  refuseSubmissions(): void;
  /** Waits until running answers are finished, at most for the time, then ends all connections to clusters. */
  close(timeoutMs: number): Promise<void>;
}

const SWEEP_INTERVAL_MS = 60_000;

/** Makes the data plane; `start` it before its first request. */
export function createDataPlane(dependencies: DataPlaneDependencies, options: DataPlaneOptions): DataPlane {
  return new QueryDataPlane(dependencies, options);
}

class QueryDataPlane implements DataPlane {
  readonly #context: DataPlaneContext;
  #settings: DataPlaneSettings;
  readonly #tracing: Tracing | null;
  readonly #steps: RequestSteps;
  readonly #isLoaded: () => boolean;
  readonly #submissions: Submissions;
  readonly #followUps: FollowUps;
  readonly #others: OtherRequests;
  readonly #prefixed: PrefixedRequests;
  #sweeper: NodeJS.Timeout | null = null;

  constructor(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
    const { names, table, clock, logger } = dependencies;
    this.#settings = options.settings;
    this.#tracing = dependencies.tracing ?? null;
    const settings = () => this.#settings;
    const upstreams = new Upstreams(options.upstream, clock);
    const keys = new ClusterKeys(table);
    const cookies = options.handshakeCookies ?? null;
    const headers = new RequestHeaders({
      names,
      forwardedHeadersEnabled: () => this.#settings.forwardedHeadersEnabled,
      trustPeer: options.trustPeer,
      ownCookies: [...options.ownCookies, names.pageCookie],
      tracing: this.#tracing !== null,
    });
    const stickiness = { ...defaultStickinessOptions, ...options.stickiness };
    const metrics = new DataPlaneMetrics(dependencies.registry, table, upstreams);
    const answers = new OwnAnswers({ names, headers, metrics, logger, clock, settings });
    const pagesMode = options.enginePages ?? 'proxy';
    const pages = options.pageCookies ?? null;
    const identities = pages === null ? null : new ClusterIdentities(pages.secret, table);
    const places =
      pages === null || identities === null
        ? null
        : new BrowserPlaces(pages, { name: names.pageCookie, identities, headers, clock });
    const engineCookies =
      identities === null
        ? null
        : new EngineCookies(new EngineCookieNames(names.engineCookiePrefix), identities, names.product);
    const context: DataPlaneContext = {
      names,
      table,
      paths: new ProxiedPaths(options),
      stickiness: new Stickiness(
        {
          store: dependencies.store,
          history: dependencies.history,
          table,
          upstream: (baseUrl) => upstreams.peek(baseUrl),
          takeover: () => this.#settings.ownerTakeover,
          logger,
          clock,
        },
        stickiness,
      ),
      transactions: new Transactions({ names, store: dependencies.store.transactions, logger, clock }, stickiness),
      ownership: new OwnershipReport(dependencies.registry, logger, clock),
      prefixes: options.prefixSticky === true ? keys : null,
      handshakes: cookies === null ? null : new HandshakeCookies(cookies, keys, clock),
      places,
      engineCookies,
      upstreams,
      headers,
      answerHeaders: new ResponseHeaders({
        ownCookies: ownCookieNames([...options.ownCookies, names.clusterHostCookie], [names.stickyCookiePrefix]),
        engineCookies,
        sandboxed: pagesMode !== 'proxy',
      }),
      enginePages: new EnginePages({ mode: pagesMode, answers, headers, table, places }),
      bodies: dependencies.bodies ?? unlimitedBodies(),
      metrics,
      history: dependencies.history,
      runningQueries: dependencies.runningQueries ?? null,
      analyzer: dependencies.analyzer,
      forwardedCheck: new ForwardedCheck(clock, dependencies.onObservation ?? (() => undefined)),
      logger,
      clock,
      chooser: new ClusterChooser(settings, { random: dependencies.random, monotonic: () => clock.monotonic() }),
      settings,
      connectionFailed: dependencies.connectionFailed ?? (() => undefined),
      serverFailed: dependencies.serverFailed ?? (() => undefined),
      refuse: (proxied, refusal) => answers.refuse(proxied, refusal),
      answerFailure: (proxied, error, answered) => answers.failure(proxied, error, answered),
      noteEnd: (proxied, status, clusterStatus) => answers.noteEnd(proxied, status, clusterStatus),
    };
    this.#context = context;
    this.#steps = new RequestSteps(logger);
    this.#isLoaded = dependencies.isLoaded ?? (() => true);
    const service = dependencies.externalRules ?? null;
    const chain = routers({
      names,
      defaultGroup: () => this.#settings.defaultRoutingGroup,
      external: service === null ? null : new ExternalRouter(service, () => this.#settings.propagateErrors),
    });
    this.#submissions = new Submissions(context, this.#steps, {
      routers: chain,
      tellsText: service?.needsAnalysis === true,
      admission: dependencies.admission ?? admitAll,
    });
    this.#followUps = new FollowUps(context, this.#steps);
    this.#others = new OtherRequests(context, this.#steps, chain);
    this.#prefixed = new PrefixedRequests(context, this.#steps, answers, this.#followUps, this.#others);
  }

  async start(): Promise<void> {
    this.#sweeper = setInterval(() => {
      const registered = new Set([...this.#context.table.current.clusters.values()].map((cluster) => cluster.proxyTo));
      this.#context.upstreams.sweep(registered);
      this.#context.chooser.sweep(this.#context.table.current);
    }, SWEEP_INTERVAL_MS).unref();
    await this.#context.stickiness.start();
  }

  handles(rawUrl: string): boolean {
    const target = splitTarget(rawUrl);
    return target !== null && this.#context.paths.kindOf((this.#prefixOf(target)?.target ?? target).path) !== null;
  }

  /** The key of a cluster in front of the path; null where none is looked for. */
  #prefixOf(target: RequestTarget): PrefixedTarget | null {
    return this.#context.prefixes === null ? null : splitClusterKey(target);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const sent = splitTarget(request.url ?? '');
    const prefixed = sent === null ? null : this.#prefixOf(sent);
    const target = prefixed?.target ?? sent;
    const pathKind = target === null ? null : this.#context.paths.kindOf(target.path);
    if (target === null || pathKind === null) {
      answer(response, 404, ['content-type', 'text/plain; charset=utf-8'], 'Not a proxied path.\n');
      return;
    }
    const method = request.method ?? '';
    const isSubmission = prefixed === null && method === 'POST' && this.#context.paths.isSubmissionPath(target.path);
    const kind = kindOf(pathKind, isSubmission);
    const proxied: ProxiedRequest = {
      request,
      response,
      method,
      target,
      rawTarget: target.query === null ? target.path : `${target.path}?${target.query}`,
      clusterKey: prefixed?.key ?? null,
      pathKind,
      statementPath: pathKind === 'statement' && this.#context.paths.statementPathOf(target.path) !== null,
      kind,
      startedAt: this.#context.clock.monotonic(),
      trace: this.#tracing?.begin(request, method, kind) ?? null,
      ended: false,
    };
    try {
      this.#route(proxied, isSubmission);
    } catch (error) {
      this.#steps.defect(proxied, error);
    }
  }

  configure(settings: Partial<DataPlaneSettings>): void {
    this.#settings = { ...this.#settings, ...settings };
  }

  refuseSubmissions(): void {
    this.#submissions.refuseAll();
  }

  async close(timeoutMs: number): Promise<void> {
    const { clock, upstreams, stickiness, transactions } = this.#context;
    const deadline = clock.monotonic() + timeoutMs;
    while (upstreams.inFlight > 0 && clock.monotonic() < deadline) await delay(20);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    stickiness.stop();
    transactions.stop();
    await upstreams.destroy();
  }

  #route(proxied: ProxiedRequest, isSubmission: boolean): void {
    const { method, request, response, target, clusterKey } = proxied;
    if (hasDotSegments(target.path)) {
      const message = 'The path holds "." or ".." segments, raw or encoded; send it without them.';
      this.#context.refuse(proxied, { reason: 'dot_segments', message, queryId: null });
      return;
    }
    switch (method) {
      case 'GET':
      case 'HEAD':
      case 'PUT':
      case 'DELETE':
      case 'POST':
        break;
      case 'OPTIONS':
        answer(response, 200, ['allow', clusterKey === null ? ALLOWED_METHODS : PREFIXED_METHODS], '');
        return;
      default: {
        const message = `Method ${method} is not proxied; allowed are ${ALLOWED_METHODS}.`;
        this.#context.refuse(proxied, { reason: 'method', message, queryId: null });
        return;
      }
    }
    if (!this.#isLoaded()) {
      this.#context.refuse(proxied, starting);
      return;
    }
    const announced = method === 'GET' || method === 'HEAD' ? null : announcedLength(request);
    if (announced !== null && announced > this.#settings.maxBodySize) {
      this.#context.refuse(proxied, bodyRefusal('body_too_large', this.#context.bodies, this.#settings.maxBodySize));
      return;
    }
    const { enginePages } = this.#context;
    if (enginePages.refuse(proxied)) return;
    if (isSubmission) this.#submissions.submit(proxied);
    else if (clusterKey !== null) this.#prefixed.route(proxied, clusterKey);
    else {
      const id =
        method === 'POST' ? null : recognizeQueryId(this.#context.paths, proxied.pathKind, target.path, target.query);
      if (id === null) this.#others.route(proxied);
      else this.#followUps.followUp(proxied, id);
    }
  }
}

const starting: Refusal = {
  reason: 'starting',
  message: 'This gateway is starting and does not know its clusters yet; ask again in a second.',
  queryId: null,
};

function kindOf(pathKind: ProxiedRequest['pathKind'], isSubmission: boolean): RequestKind {
  if (isSubmission) return 'submission';
  return pathKind === 'statement' ? 'follow_up' : pathKind;
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
