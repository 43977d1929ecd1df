import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { explainNoCluster } from '../routing/clusterChoice.ts';
import { ClusterChooser } from '../routing/clusterChooser.ts';
import { type PrefixedTarget, splitClusterKey } from '../routing/clusterKey.ts';
import { backTo, decideExternally, decideGroup, type GroupDecision } from '../routing/groupDecision.ts';
import {
  hasDotSegments,
  type PathPattern,
  ProxiedPaths,
  type RequestTarget,
  splitTarget,
} from '../routing/proxiedPaths.ts';
import { isAskable, isPlausible, recognizeQueryId } from '../routing/queryId.ts';
import { ALLOWED_METHODS, type Refusal, renderRefusal } from '../routing/refusal.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { RuleDecision, RuleRequest } from '../rules/decision.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import { AskExchange, unknownQuery } from './askExchange.ts';
import { announcedLength, type BodyStart, emptyBody, hasBody, readStart } from './body.ts';
import { codeOf } from './clusterError.ts';
import { ClusterKeys } from './clusterKeys.ts';
import type { DataPlaneContext, DataPlaneSettings, ProxiedRequest } from './dataPlaneContext.ts';
import { DataPlaneMetrics, type RequestKind } from './dataPlaneMetrics.ts';
import { durationText } from './durationText.ts';
import type { ExternalRules } from './external/externalRules.ts';
import { ForwardExchange, type OtherReason, tooLarge } from './forwardExchange.ts';
import { ForwardedCheck, type ForwardedHeadersObservation } from './forwardedCheck.ts';
import { type Handshake, type HandshakeCookieOptions, HandshakeCookies } from './handshakeCookies.ts';
import { mayKillQuery } from './killQuery.ts';
import { ownerCluster } from './ownerCluster.ts';
import { PREFIXED_METHODS, routeByPrefix } from './prefixRouting.ts';
import { type Analysis, headerOf, type RequestAnalyzer } from './requestAnalyzer.ts';
import { RequestHeaders } from './requestHeaders.ts';
import type { RunningQueries } from './runningQueries.ts';
import { defaultStickinessOptions, type QueryOwner, Stickiness, type StickinessOptions } from './stickiness.ts';
import { type Submission, SubmissionExchange } from './submissionExchange.ts';
import type { Tracing } from './tracing/requestTrace.ts';
import type { TrustPeer } from './trustedProxies.ts';
import { type UpstreamOptions, Upstreams } from './upstreams.ts';

/** What the data plane works with. */
export interface DataPlaneDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'history'>;
  readonly history: Pick<HistoryWriter, 'add' | 'buffered'>;
  /** Left out, requests are not traced. */
  readonly tracing?: Tracing | null;
  /** Told which queries clients follow; left out, nobody is. */
  readonly runningQueries?: RunningQueries;
  readonly analyzer: RequestAnalyzer;
  /** Null: rules and header decide. */
  readonly externalRules?: ExternalRules | null;
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
  readonly upstream: UpstreamOptions;
  readonly stickiness?: Partial<StickinessOptions>;
  readonly settings: DataPlaneSettings;
}

/** The proxying half of the gateway (contract.md §1.9, §2, §3, §4). */
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

/** Least size up to which submissions are buffered (design.md, fixed point 8). */
const MIN_BUFFERED_BODY = 1_048_576;
/** Most questions to all clusters at once (design.md, fixed point 7). */
const MAX_ASKINGS = 16;
const SWEEP_INTERVAL_MS = 60_000;

/** Makes the data plane; `start` it before its first request. */
export function createDataPlane(dependencies: DataPlaneDependencies, options: DataPlaneOptions): DataPlane {
  return new QueryDataPlane(dependencies, options);
}

class QueryDataPlane implements DataPlane {
  readonly #context: DataPlaneContext;
  #settings: DataPlaneSettings;
  readonly #groupHeader: string;
  readonly #preparedHeader: string;
  readonly #externalRules: ExternalRules | null;
  readonly #tracing: Tracing | null;
  readonly #askings = new Map<string, Promise<QueryOwner | null>>();
  #refusals = 0;
  #stopping = false;
  #sweeper: NodeJS.Timeout | null = null;

  constructor(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
    const { names, table, clock, logger } = dependencies;
    this.#settings = options.settings;
    this.#groupHeader = names.headerKey('Routing-Group');
    this.#preparedHeader = names.headerKey('Prepared-Statement');
    this.#externalRules = dependencies.externalRules ?? null;
    this.#tracing = dependencies.tracing ?? null;
    const settings = () => this.#settings;
    const upstreams = new Upstreams(options.upstream, clock);
    const keys = new ClusterKeys(table);
    const cookies = options.handshakeCookies ?? null;
    this.#context = {
      names,
      table,
      paths: new ProxiedPaths(options),
      stickiness: new Stickiness(
        {
          store: dependencies.store,
          history: dependencies.history,
          clusterAt: (baseUrl) => clusterAt(table.current, baseUrl),
          logger,
          clock,
        },
        { ...defaultStickinessOptions, ...options.stickiness },
      ),
      prefixes: options.prefixSticky === true ? keys : null,
      handshakes: cookies === null ? null : new HandshakeCookies(cookies, keys, clock),
      upstreams,
      headers: new RequestHeaders({
        names,
        forwardedHeadersEnabled: () => this.#settings.forwardedHeadersEnabled,
        trustPeer: options.trustPeer,
        ownCookies: options.ownCookies,
        tracing: this.#tracing !== null,
      }),
      metrics: new DataPlaneMetrics(dependencies.registry, table, upstreams),
      history: dependencies.history,
      runningQueries: dependencies.runningQueries ?? null,
      analyzer: dependencies.analyzer,
      forwardedCheck: new ForwardedCheck(clock, dependencies.onObservation ?? (() => undefined)),
      logger,
      clock,
      chooser: new ClusterChooser(settings, dependencies.random, () => clock.monotonic()),
      settings,
      connectionFailed: dependencies.connectionFailed ?? (() => undefined),
      serverFailed: dependencies.serverFailed ?? (() => undefined),
      refuse: (proxied, refusal) => this.#refuse(proxied, refusal),
      answerFailure: (proxied, error, answered) => this.#answerFailure(proxied, error, answered),
      noteEnd: (proxied, status, clusterStatus) => {
        if (proxied.ended) return;
        proxied.ended = true;
        proxied.trace?.end(status, clusterStatus);
        const seconds = (clock.monotonic() - proxied.startedAt) / 1000;
        this.#context.metrics.request(proxied.kind, proxied.method, status, seconds);
      },
    };
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
      this.#defect(proxied, error);
    }
  }

  configure(settings: Partial<DataPlaneSettings>): void {
    this.#settings = { ...this.#settings, ...settings };
  }

  refuseSubmissions(): void {
    this.#stopping = true;
  }

  async close(timeoutMs: number): Promise<void> {
    const { clock, upstreams, stickiness } = this.#context;
    const deadline = clock.monotonic() + timeoutMs;
    while (upstreams.inFlight > 0 && clock.monotonic() < deadline) await delay(20);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    stickiness.stop();
    await upstreams.destroy();
  }

  #route(proxied: ProxiedRequest, isSubmission: boolean): void {
    const { method, request, response, target, clusterKey } = proxied;
    if (hasDotSegments(target.path)) {
      const message = 'The path holds "." or ".." segments, raw or encoded; send it without them.';
      this.#refuse(proxied, { reason: 'dot_segments', message, queryId: null });
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
        this.#refuse(proxied, { reason: 'method', message, queryId: null });
        return;
      }
    }
    const announced = method === 'GET' || method === 'HEAD' ? null : announcedLength(request);
    if (announced !== null && announced > this.#settings.maxBodySize) {
      this.#refuse(proxied, tooLarge(this.#settings.maxBodySize));
      return;
    }
    if (isSubmission) this.#submit(proxied);
    else if (clusterKey !== null) this.#byPrefix(proxied, clusterKey);
    else {
      const id =
        method === 'POST' ? null : recognizeQueryId(this.#context.paths, proxied.pathKind, target.path, target.query);
      if (id === null) this.#decideOther(proxied);
      else this.#followUp(proxied, id);
    }
  }

  #submit(proxied: ProxiedRequest): void {
    if (this.#stopping) {
      const message = 'This gateway is stopping and takes no new queries; send it again, another one answers.';
      this.#refuse(proxied, { reason: 'stopping', message, queryId: null });
      return;
    }
    this.#context.metrics.submission();
    const { request } = proxied;
    if (!hasBody(request)) {
      this.#analyze(proxied, emptyBody);
      return;
    }
    const limit = Math.max(this.#settings.maxAnalyzedBody, MIN_BUFFERED_BODY);
    readStart(request, limit, (body) => this.#guarded(proxied, () => this.#analyze(proxied, body)));
  }

  /** Finds out what the decision needs to know; goes on at once where nothing has to be waited for. */
  #analyze(proxied: ProxiedRequest, body: BodyStart): void {
    const { analyzer, table } = this.#context;
    const known = table.current;
    proxied.trace?.step('analysis');
    const bytes = body.complete ? body.bytes : null;
    const needsAll =
      this.#needsAnalysis(known) || (bytes !== null && mayKillQuery(body.text, proxied.request, this.#preparedHeader));
    if (needsAll) {
      this.#settle(proxied, analyzer.analyze(proxied.request, bytes, true), (analysis) =>
        this.#decideSubmission(proxied, body, known, analysis, true),
      );
    } else {
      this.#settle(proxied, analyzer.user(proxied.request), (user) =>
        this.#decideSubmission(proxied, body, known, { user, queryProperties: null }, false),
      );
    }
  }

  #decideSubmission(
    proxied: ProxiedRequest,
    body: BodyStart,
    table: RoutingTable,
    analysis: Analysis,
    analyzed: boolean,
  ): void {
    const ruled = this.#askRules(proxied, table, analysis, body, analyzed);
    if (ruled !== null && ruled.denied !== null) {
      this.#refuse(proxied, { reason: 'denied', message: ruled.denied.message, queryId: null });
      this.#logRefused(proxied, analysis, { rule: ruled.denied.rule, reason: 'denied' });
      return;
    }
    if (this.#refuseRejected(proxied, ruled)) return;
    const killed = analysis.queryProperties?.queryId ?? null;
    const submit = (decision: GroupDecision): void => {
      const submission: Submission = { body, user: analysis.user, decision, about: null };
      if (killed === null) new SubmissionExchange(this.#context, proxied, submission).start();
      else this.#kill(proxied, submission, killed);
    };
    if (this.#externalRules === null) submit(this.#groupOf(proxied, ruled));
    else
      this.#askService(
        proxied,
        this.#externalRules,
        ruled,
        this.#ruleRequest(proxied, analysis, body, analyzed),
        submit,
      );
  }

  /** Lets the external rules service decide, where rules have not denied the request before. */
  #askService(
    proxied: ProxiedRequest,
    service: ExternalRules,
    ruled: RuleDecision | null,
    request: RuleRequest,
    next: (decision: GroupDecision) => void,
  ): void {
    proxied.trace?.step('rules service');
    this.#settle(proxied, service.ask(request), (answer) => {
      if (answer.outcome === 'errors' && answer.errors.length > 0 && this.#settings.propagateErrors) {
        const message = `The external rules service refused the request: ${answer.errors.join('; ')}`;
        this.#refuse(proxied, { reason: 'external_errors', message, queryId: null, list: answer.errors });
        return;
      }
      const header = headerOf(proxied.request, this.#groupHeader);
      next(decideExternally(answer, ruled?.trace ?? [], header, this.#settings.defaultRoutingGroup));
    });
  }

  #needsAnalysis(table: RoutingTable): boolean {
    return table.rules?.needsAnalysis === true || this.#externalRules?.needsAnalysis === true;
  }

  /** A call of kill_query goes to the cluster of the query it names. */
  #kill(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const known = this.#context.stickiness.ownerNow(id);
    const found = known === null ? this.#context.stickiness.find(id).then((row) => row?.owner ?? null) : known;
    this.#settle(proxied, found, (owner) => {
      const about = owner === null ? null : { queryId: id, cluster: ownerCluster(this.#context.table.current, owner) };
      new SubmissionExchange(this.#context, proxied, { ...submission, about }).start();
    });
  }

  /** A proxied request that is neither a submission nor about a known query: routed like a new one. */
  #decideOther(proxied: ProxiedRequest): void {
    const { handshakes } = this.#context;
    const handshake = handshakes?.read(proxied.target.path, () => proxied.request.headers.cookie) ?? null;
    if (handshake !== null && handshake.cluster !== null) {
      const { cluster } = handshake;
      this.#forwardTo(proxied, {
        queryId: null,
        decision: backTo(cluster, 'cookie'),
        cluster,
        fallback: false,
        handshake,
      });
      return;
    }
    const table = this.#context.table.current;
    const service = this.#externalRules;
    if (table.rules === null && service === null) {
      this.#forward(proxied, table, this.#groupOf(proxied, null), handshake);
      return;
    }
    const analyzed = this.#needsAnalysis(table);
    const needed = analyzed
      ? this.#context.analyzer.analyze(proxied.request, null, false)
      : { user: { user: null, userInfo: null }, queryProperties: null };
    this.#settle(proxied, needed, (analysis) => {
      const ruled = this.#askRules(proxied, table, analysis, null, analyzed);
      if (this.#refuseRejected(proxied, ruled)) return;
      if (service === null) this.#forward(proxied, table, this.#groupOf(proxied, ruled), handshake);
      else {
        const described = this.#ruleRequest(proxied, analysis, null, analyzed);
        this.#askService(proxied, service, ruled, described, (decision) =>
          this.#forward(proxied, this.#context.table.current, decision, handshake),
        );
      }
    });
  }

  #forward(proxied: ProxiedRequest, table: RoutingTable, decision: GroupDecision, handshake: Handshake | null): void {
    const { defaultRoutingGroup } = this.#settings;
    proxied.trace?.step('choice');
    const choice = this.#context.chooser.choose(table, decision, null, null);
    if (choice.cluster === null) {
      this.#refuse(proxied, {
        reason: choice.pending ? 'pending' : 'no_cluster',
        message: explainNoCluster(decision, choice.notTaken, defaultRoutingGroup),
        queryId: null,
      });
      return;
    }
    const { cluster, fallback } = choice;
    this.#forwardTo(proxied, { queryId: null, decision, cluster, fallback, handshake });
  }

  #forwardTo(proxied: ProxiedRequest, reason: OtherReason): void {
    const upstream = this.#context.upstreams.get(reason.cluster.proxyTo);
    if (upstream === null) this.#answerFailure(proxied, new Error('proxyTo is no HTTP URL'), false);
    else new ForwardExchange(this.#context, proxied, reason).start(upstream);
  }

  /** A request whose URL says which cluster it belongs to. */
  #byPrefix(proxied: ProxiedRequest, key: string): void {
    const { prefixes, metrics } = this.#context;
    if (prefixes === null) return;
    this.#settle(proxied, routeByPrefix(this.#context, prefixes, proxied, key), (route) => {
      switch (route.to) {
        case 'owner':
          metrics.lookup('prefix');
          this.#toOwner(proxied, route.queryId, route.owner);
          break;
        case 'cluster': {
          const { cluster } = route;
          const decision = backTo(cluster, 'prefix');
          this.#forwardTo(proxied, { queryId: null, decision, cluster, fallback: false, handshake: null });
          break;
        }
        case 'redirect':
          this.#finishOwn(proxied);
          answer(proxied.response, 307, ['location', route.location], '');
          break;
        default:
          this.#refuse(proxied, route.refusal);
      }
    });
  }

  #followUp(proxied: ProxiedRequest, id: string): void {
    const { stickiness, metrics } = this.#context;
    const owner = stickiness.ownerNow(id);
    if (owner !== null) {
      metrics.lookup('memory');
      this.#toOwner(proxied, id, owner);
    } else if (!isPlausible(id) || stickiness.isMiss(id)) {
      metrics.lookup('missed');
      this.#refuse(proxied, unknownQuery(id));
    } else {
      proxied.trace?.step('lookup');
      this.#settle(proxied, stickiness.find(id), (found) => {
        if (found === null) this.#ask(proxied, id);
        else {
          metrics.lookup(found.source);
          this.#toOwner(proxied, id, found.owner);
        }
      });
    }
  }

  #toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const upstream = this.#context.upstreams.get(owner.baseUrl);
    if (upstream === null) this.#refuse(proxied, unknownQuery(queryId));
    else new ForwardExchange(this.#context, proxied, { queryId, owner }).start(upstream);
  }

  /** Asks all clusters for a query that nobody has told this gateway of. */
  #ask(proxied: ProxiedRequest, id: string): void {
    const { metrics, table } = this.#context;
    const { method } = proxied;
    const running = this.#askings.get(id);
    if (running !== undefined) {
      // One question an id: whoever comes meanwhile waits for its answer.
      this.#settle(proxied, running, (owner) => {
        if (owner === null) this.#refuse(proxied, unknownQuery(id));
        else this.#toOwner(proxied, id, owner);
      });
      return;
    }
    if (!isAskable(id) || (method !== 'GET' && method !== 'HEAD' && method !== 'DELETE') || hasBody(proxied.request)) {
      metrics.lookup('unknown');
      this.#refuse(proxied, unknownQuery(id));
      return;
    }
    if (this.#askings.size >= MAX_ASKINGS) {
      const message = `Too many unknown queries are being looked for; ask for ${id} again in a second.`;
      this.#refuse(proxied, { reason: 'too_many_lookups', message, queryId: id });
      return;
    }
    const { promise, resolve } = Promise.withResolvers<QueryOwner | null>();
    this.#askings.set(id, promise);
    const exchange = new AskExchange(this.#context, proxied, id, (owner) => {
      this.#askings.delete(id);
      metrics.lookup(owner === null ? 'unknown' : 'asked');
      resolve(owner);
    });
    exchange.ask(table.current.clusters.values());
  }

  #groupOf(proxied: ProxiedRequest, ruled: RuleDecision | null): GroupDecision {
    const header = ruled === null || ruled.useHeader ? headerOf(proxied.request, this.#groupHeader) : undefined;
    return decideGroup(ruled, header, this.#settings.defaultRoutingGroup);
  }

  #askRules(
    proxied: ProxiedRequest,
    table: RoutingTable,
    analysis: Analysis,
    body: BodyStart | null,
    analyzed: boolean,
  ): RuleDecision | null {
    if (table.rules === null) return null;
    proxied.trace?.step('rules');
    return table.rules.decide(this.#ruleRequest(proxied, analysis, body, analyzed && table.rules.needsAnalysis));
  }

  #ruleRequest(proxied: ProxiedRequest, analysis: Analysis, body: BodyStart | null, analyzed: boolean): RuleRequest {
    const { request, target } = proxied;
    const client = this.#context.headers.clientOf(request);
    const raw = request.rawHeaders;
    const headers: (readonly [string, string])[] = [];
    for (let index = 0; index < raw.length; index += 2) headers.push([raw[index] as string, raw[index + 1] as string]);
    const isForm = headerOf(request, 'content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded');
    return {
      method: proxied.method,
      path: target.path,
      query: target.query,
      headers,
      scheme: client.scheme,
      serverName: client.host,
      serverPort: client.port,
      remoteAddr: client.address,
      remoteUser: null,
      formBody: isForm === true && body !== null && body.complete ? body.text : null,
      isSubmission: proxied.kind === 'submission',
      user: analyzed ? analysis.user : null,
      queryProperties: analyzed ? analysis.queryProperties : null,
    };
  }

  #refuseRejected(proxied: ProxiedRequest, ruled: RuleDecision | null): boolean {
    if (ruled === null || ruled.rejected === null) return false;
    this.#refuse(proxied, { reason: 'rule_failed', message: ruled.rejected.message, queryId: null });
    return true;
  }

  #refuse(proxied: ProxiedRequest, refusal: Refusal): void {
    const { response, request } = proxied;
    this.#context.metrics.refusal(refusal.reason);
    proxied.trace?.failed(refusal.reason);
    const client = this.#context.headers.clientOf(request);
    const rendered = renderRefusal(refusal, {
      statementPath: proxied.statementPath,
      statementErrors: this.#settings.statementErrors,
      baseUrl: `${client.scheme}://${client.host}:${client.port}`,
      fallbackId: this.#refusalId(),
    });
    this.#context.logger.debug(
      { reason: refusal.reason, path: proxied.target.path, method: proxied.method, status: rendered.status },
      refusal.message,
    );
    this.#finishOwn(proxied);
    answer(response, rendered.status, rendered.headers, rendered.body);
  }

  /** An id for results objects of refusals: of the form of ids, but never of a coordinator. */
  #refusalId(): string {
    const stamp = new Date(this.#context.clock.now()).toISOString().replace(/[-:]/g, '').slice(0, 15).replace('T', '_');
    this.#refusals = (this.#refusals + 1) % 100_000;
    return `${stamp}_${String(this.#refusals).padStart(5, '0')}_refused`;
  }

  #answerFailure(proxied: ProxiedRequest, error: Error, answered: boolean): void {
    const { response } = proxied;
    const { names, logger } = this.#context;
    const remote = `remote ${names.product} server`;
    const message =
      codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT'
        ? `Request to ${remote} timed out after ${durationText(this.#settings.asyncTimeout)}`
        : answered
          ? `Failed reading response from ${remote}`
          : `Request to ${remote} failed`;
    logger.warn({ path: proxied.target.path, method: proxied.method, err: error }, message);
    this.#finishOwn(proxied);
    answer(response, 502, ['content-type', 'text/plain; charset=utf-8'], message);
  }

  /** Counts a request that ends without an exchange; those with one are counted by it. */
  #finishOwn(proxied: ProxiedRequest): void {
    proxied.response.once('close', () => this.#context.noteEnd(proxied, proxied.response.statusCode, 0));
  }

  #logRefused(proxied: ProxiedRequest, analysis: Analysis, more: { rule: string; reason: string }): void {
    this.#context.logger.info(
      {
        ...more,
        user: analysis.user.user,
        source: headerOf(proxied.request, this.#context.names.headerKey('Source')),
        status: 'refused',
        durationMs: Math.round(this.#context.clock.monotonic() - proxied.startedAt),
      },
      'query',
    );
  }

  /** Goes on with a value that is there already, or once it is. */
  #settle<T>(proxied: ProxiedRequest, value: T | Promise<T>, next: (value: T) => void): void {
    if (!(value instanceof Promise)) {
      next(value);
      return;
    }
    value.then(
      (settled) => {
        if (!proxied.response.destroyed) this.#guarded(proxied, () => next(settled));
      },
      (error: unknown) => this.#defect(proxied, error),
    );
  }

  #guarded(proxied: ProxiedRequest, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.#defect(proxied, error);
    }
  }

  #defect(proxied: ProxiedRequest, error: unknown): void {
    this.#context.logger.error({ err: error, path: proxied.target.path, method: proxied.method }, 'request failed');
    const { response } = proxied;
    if (response.headersSent) response.destroy();
    else
      answer(response, 500, ['content-type', 'text/plain; charset=utf-8'], 'The gateway failed; its log says why.\n');
  }
}

function kindOf(pathKind: ProxiedRequest['pathKind'], isSubmission: boolean): RequestKind {
  if (isSubmission) return 'submission';
  return pathKind === 'statement' ? 'follow_up' : pathKind;
}

function answer(response: ServerResponse, status: number, headers: readonly string[], body: string): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(body))]);
  response.end(body);
}

function clusterAt(table: RoutingTable, baseUrl: string): string {
  for (const cluster of table.clusters.values()) if (cluster.proxyTo === baseUrl) return cluster.name;
  return '';
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
