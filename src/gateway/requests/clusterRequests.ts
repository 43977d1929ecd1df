import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { parseHost } from '../../model/http.ts';
import type { PickRequest } from '../../routing/clusterChooser.ts';
import { backTo, type GroupDecision } from '../../routing/groupRouter.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { coordinatorSuffix, PLAUSIBLE_ID } from '../../routing/statementProtocol.ts';
import type { ChoiceStep } from '../../routing/storedDecision.ts';
import { noMemoryForBody } from '../bodies/requestBodies.ts';
import type { DataPlaneParts, ExchangeParts } from '../dataPlane.ts';
import { type AttemptFailure, type BufferedResponse, Exchange, type ExchangeEnd } from '../exchanges/exchange.ts';
import {
  disownedQuery,
  overloaded,
  ownerGone,
  type RespondingCluster,
  undecidedQuery,
  unknownQuery,
} from '../exchanges/responses.ts';
import { ResponseWatch } from '../exchanges/responseWatch.ts';
import { movedOwner, ownerCluster, type QueryOwner } from '../ownership/queryOwner.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import {
  chooseTarget,
  type OutgoingRequest,
  onlyTarget,
  outgoingRequest,
  type ProxiedRequest,
  ProxiedRuleRequest,
  requestTo,
  type SurvivalMark,
} from '../proxiedRequest.ts';
import type { FailedPage } from '../queue/survival.ts';
import { isOwnFault, isReset, type Upstream } from '../upstreams/upstreams.ts';
import { isAuthenticated } from '../user/clientCertificates.ts';

/**
 * `server.enginePages`: engines' web pages (paths below `/ui`) are proxied, redirected to the cluster's `externalUrl`, or
 * rejected.
 */
export type EnginePagesMode = 'proxy' | 'redirect' | 'off';

export function isReplacedPage({ enginePages }: DataPlaneParts, { pathKind }: ProxiedRequest): boolean {
  return pathKind === 'ui' && enginePages !== 'proxy';
}

/**
 * Responds to a request that goes to no cluster: for a page where `server.enginePages` is `off`, with a method that
 * cannot be redirected, or for the script of a service worker. One cluster's worker would stand between a browser and
 * the pages of all other clusters, and stay. Browsers mark such requests, and scripts cannot take that away (Service
 * Workers, 6.3).
 * @returns false where the request continues
 */
export function rejectPage(parts: DataPlaneParts, proxied: ProxiedRequest): boolean {
  const { method, fields } = proxied;
  if (method === 'GET' && fields.has('service-worker')) {
    return reject(parts, proxied, 'Scripts of service workers are not proxied.');
  }
  if (!isReplacedPage(parts, proxied)) return false;
  if (parts.enginePages === 'off') {
    return reject(parts, proxied, 'The web pages of engines are not served here (server.enginePages: off).');
  }
  if (method === 'GET' || method === 'HEAD') return false;
  const message =
    'The web pages of engines are redirected to the address of the cluster itself (server.enginePages: redirect): only GET and HEAD are answered here.';
  return reject(parts, proxied, message);
}

/**
 * Redirects to the same page at the cluster's own address.
 * @param name of the cluster; one that is not registered any more has no address
 */
export function redirectPage(parts: DataPlaneParts, proxied: ProxiedRequest, name: string): void {
  const { responses, headers, table } = parts;
  const entry = table.current.clusters.get(name);
  // The default of externalUrl is proxyTo, the gateway's way to the cluster, which is not for browsers.
  const isStated = entry !== undefined && (entry.externalUrl !== entry.proxyTo || entry.hasExternalUrl === true);
  const base = isStated ? entry.externalUrl : '';
  const url = URL.parse(base);
  // Rows of Trino Gateway may hold any text.
  if (url === null || !/^https?:$/.test(url.protocol)) {
    const message = `The web pages of engines are not proxied here (server.enginePages: redirect), and cluster "${name}" has no address for browsers. Set its externalUrl.`;
    reject(parts, proxied, message);
    return;
  }
  const view = headers.clientOf(proxied.request);
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  if (url.hostname === parseHost(view.host)?.name && port === view.port) {
    const message = `The externalUrl of cluster "${name}" is the address of this gateway, where the web pages of engines are not served (server.enginePages: redirect). Set it to the address of the cluster itself.`;
    reject(parts, proxied, message);
    return;
  }
  const target = proxied.rawTarget.replace(
    /[^\x21-\x7e]/g,
    (byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`,
  );
  const lines = ['location', `${base}${target}`, 'cache-control', 'no-store', 'referrer-policy', 'no-referrer'];
  responses.send(proxied, 307, lines, '');
}

function reject({ responses }: DataPlaneParts, proxied: ProxiedRequest, message: string): true {
  responses.reject(proxied, toRefusal('engine_pages', message));
  return true;
}

/** Methods of the URLs that carry a key: clients poll, cancel, download and acknowledge with these. */
export const KEYED_METHODS = 'GET, HEAD, DELETE, OPTIONS';

/** Requests that are no submissions: about queries, for spooled segments, for pages, logins and probes. */
export class ClusterRequests {
  readonly #parts: DataPlaneParts;

  constructor(parts: DataPlaneParts) {
    this.#parts = parts;
  }

  /**
   * Serves a request.
   * @param id of the query that it is about; null for none
   */
  async serve(proxied: ProxiedRequest, id: string | null): Promise<void> {
    if (rejectPage(this.#parts, proxied)) return;
    const { clusterKey, method, response } = proxied;
    const isOfQuery = id !== null || (clusterKey !== null && method !== 'POST');
    const { mapping = null, responses } = this.#parts;
    // A query that a cluster has taken continues whatever has become of its user. Pages, logins and probes have no user.
    const isMapped = mapping !== null && isAuthenticated(proxied.target.path);
    if (isMapped && (!isOfQuery || mapping.users.rewritesHeader)) {
      const user = await mapping.identity(proxied);
      if (response.destroyed) return;
      if (!isOfQuery && user.rejection !== undefined) {
        responses.reject(proxied, toRefusal('user_mapping', user.rejection));
        return;
      }
      if (user.user !== null && user.mapping?.isForwarded === true) proxied.forwardedUser = user.user;
    }
    if (clusterKey !== null && !(id !== null && isKeyedQuery(proxied))) await this.#keyed(proxied, clusterKey);
    else if (id === null) await this.#other(proxied);
    else await this.followUp(proxied, id);
  }

  /** Finds the owner of the query that a request names, and sends the request there. */
  async followUp(proxied: ProxiedRequest, id: string): Promise<void> {
    const { stickiness, metrics, responses, search, ownership, settings } = this.#parts;
    const remembered = stickiness.ownerNow(id);
    if (remembered !== null) {
      metrics.lookup('memory');
      this.#toOwner(proxied, id, remembered);
      return;
    }
    const isMissed = !PLAUSIBLE_ID.test(id) || stickiness.isMiss(id);
    if (isMissed || stickiness.claims.isDisowned(id)) {
      metrics.lookup('missed');
      responses.reject(proxied, isMissed ? unknownQuery(id) : disownedQuery(id));
      return;
    }
    proxied.trace?.step('lookup');
    const stored = await stickiness.find(id);
    if (proxied.response.destroyed) return;
    if (typeof stored !== 'string') {
      metrics.lookup(stored.source);
      this.#toOwner(proxied, id, stored.owner);
      return;
    }
    let why: 'unknown' | 'undecided' = stored;
    const suffix = coordinatorSuffix(id);
    if (suffix !== null && settings.askClusters !== 'off' && !isReplacedPage(this.#parts, proxied)) {
      // The gateway has never heard of the query: asks all clusters which coordinator they are. Nothing of the client's
      // request leaves the gateway before one of them is confirmed as the owner.
      proxied.trace?.step('ask clusters');
      const owner = await search.find(suffix);
      if (proxied.response.destroyed) return;
      if (typeof owner !== 'string') {
        // It becomes the owner of the id's suffix, unless the database knows another one.
        const conflict = await stickiness.claims.learn(id, owner);
        if (proxied.response.destroyed) return;
        if (conflict === null) {
          metrics.lookup('asked');
          this.#toOwner(proxied, id, owner);
          return;
        }
        ownership.conflict(owner.cluster, id, conflict);
      } else if (stored === 'unknown') why = owner;
    }
    metrics.lookup(why);
    if (why === 'unknown') stickiness.noteMiss(id);
    responses.reject(proxied, why === 'unknown' ? unknownQuery(id) : undecidedQuery(id));
  }

  /** Sends a request to the owner of its query, or its client there. */
  #toOwner(proxied: ProxiedRequest, queryId: string, owner: QueryOwner): void {
    const { table, upstreams, responses } = this.#parts;
    if (isReplacedPage(this.#parts, proxied)) {
      redirectPage(this.#parts, proxied, ownerCluster(table.current, owner).name);
      return;
    }
    const upstream = upstreams.byProxyTo.get(owner.proxyTo) ?? upstreams.get(owner.proxyTo);
    if (upstream === null) responses.reject(proxied, unknownQuery(queryId));
    else new FollowUpExchange(this.#parts, proxied, queryId, owner).start(upstream);
  }

  /** Decides where a request without a query goes, and sends it there. */
  async #other(proxied: ProxiedRequest): Promise<void> {
    const { handshakes, router, analyzer, externalRules, headers, table, responses } = this.#parts;
    const { request, response, target, trace } = proxied;
    const handshake = handshakes?.read(target.path, () => request.headers.cookie) ?? null;
    const cluster = handshake?.cluster ?? null;
    if (cluster !== null) {
      const decision = backTo(cluster, 'cookie');
      this.#forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake });
      return;
    }
    const { current } = table;
    const needsAnalysis = current.rules?.needsAnalysis === true || externalRules?.needsAnalysis === true;
    const analysis = needsAnalysis ? await analyzer.analyze(proxied, null) : null;
    const sender = analysis?.user ?? (current.rules?.needsSender === true ? await analyzer.user(proxied) : null);
    const ruleRequest = new ProxiedRuleRequest(proxied, analysis, sender, null, headers);
    const routed = await router.decide(ruleRequest, current, trace);
    if (response.destroyed) return;
    if (routed.refusal !== null) {
      responses.reject(proxied, routed.refusal);
      return;
    }
    const { decision } = routed;
    trace?.step('choice');
    const chosen = chooseTarget(this.#parts, decision, anybody(proxied), null, handshake?.login ?? null);
    if (chosen.cluster === null) responses.reject(proxied, chosen.refusal);
    else {
      const { fallback, steps } = chosen;
      this.#forwardTo(proxied, { decision, cluster: chosen.cluster, fallback, steps, handshake });
    }
  }

  /**
   * Serves a request whose path begins with the key of a cluster (docs/routing.md#spooled-segments). Only a spooled segment
   * goes to the key's cluster, as its id names no query. With anything else, a client that invents a key could choose its
   * cluster.
   */
  async #keyed(proxied: ProxiedRequest, key: string): Promise<void> {
    const { responses, metrics } = this.#parts;
    const { method, pathKind, target, rawTarget, response } = proxied;
    if (method === 'POST' || method === 'PUT') {
      const message = `A URL of a query takes ${KEYED_METHODS}; submit queries without its first path segment.`;
      responses.reject(proxied, { reason: 'method', message, queryId: null, allow: KEYED_METHODS });
    } else if (pathKind === 'other' && isBelow(target.path, '/v1/spooled')) {
      const cluster = await this.#clusterOf(key);
      if (response.destroyed) return;
      if ('reason' in cluster) responses.reject(proxied, cluster);
      else {
        metrics.lookup('prefix');
        const decision = backTo(cluster, 'prefix');
        this.#forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake: null });
      }
    } else if (method !== 'DELETE' && (pathKind === 'ui' || isBelow(target.path, '/oauth2'))) {
      // The same path without the key; relative, as a proxy in front may have removed a prefix.
      const depth = target.path.split('/').length - 1;
      responses.send(proxied, 307, ['location', '../'.repeat(depth) + rawTarget.slice(1)], '');
    } else responses.reject(proxied, notOfAQuery);
  }

  /** The cluster that has the key: registered, or the newest owner that this replica or another one knows. */
  async #clusterOf(key: string): Promise<ClusterEntry | Refusal> {
    const { keys, stickiness, table } = this.#parts;
    const cluster = keys.clusterOf(key);
    if (cluster !== null) return cluster;
    const hasKey = ({ cluster: name }: QueryOwner) => name !== '' && keys.keyOf(name) === key;
    const owner = await stickiness.findNewestOwner(hasKey);
    if (owner === 'undecided') return undecidedSegment;
    return owner === 'unknown' ? unknownKey : ownerCluster(table.current, owner);
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  #forwardTo(proxied: ProxiedRequest, route: OtherRoute): void {
    if (isReplacedPage(this.#parts, proxied)) {
      redirectPage(this.#parts, proxied, route.cluster.name);
      return;
    }
    const { upstream } = onlyTarget(this.#parts, route.cluster);
    if (upstream === null) this.#parts.responses.failure(proxied, new Error('proxyTo is not an HTTP URL'), false);
    else new OtherExchange(this.#parts, proxied, route).start(upstream);
  }
}

/** True if a URL with a cluster's key is one of a query, so that the key does not matter. */
function isKeyedQuery({ method, pathKind }: ProxiedRequest): boolean {
  return pathKind === 'statement' && method !== 'POST' && method !== 'PUT';
}

function isBelow(path: string, base: string): boolean {
  return path.startsWith(base) && path.charCodeAt(base.length) === 47;
}

const unknownKey = toRefusal(
  'unknown_prefix',
  'The first segment of the URL names no cluster behind this gateway. Run the query again.',
);

/** The refusal of a segment whose cluster only another replica may have heard of. */
const undecidedSegment = toRefusal(
  'undecided_query',
  'Which cluster holds this segment of a result is not known at the moment; ask again in a second.',
);

const notOfAQuery = toRefusal(
  'unknown_prefix',
  'Only the URLs of a query begin with the key of a cluster; ask without the first path segment.',
);

/** Any proxied request but a submission: streamed through to one cluster. */
export abstract class ForwardExchange extends Exchange {
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(parts: ExchangeParts, proxied: ProxiedRequest, decision: GroupDecision | null) {
    super(parts, proxied);
    const { fields } = proxied;
    const hasBody = fields.has('transfer-encoding') || Number(fields.get('content-length')?.[0] ?? 0) > 0;
    const body = hasBody ? this.relay(null) : null;
    this.outgoing = outgoingRequest(parts, proxied, decision, body);
  }

  /** The cluster failed, for good: another one takes over, or the client gets a response. */
  protected abstract onClusterFailure(failure: AttemptFailure): void;

  start(upstream: Upstream): void {
    const { bodies } = this.parts;
    const { request, response } = this.proxied;
    if (this.outgoing.body === null || bodies.relay(request, response)) this.sendTo(upstream);
    else this.reject(noMemoryForBody(bodies));
  }

  /** Sends the request to an upstream, also after another one failed, unless too many wait there. */
  protected sendTo(upstream: Upstream): void {
    if (upstream.inFlight >= upstream.limit) this.reject(overloaded(this.destination.name));
    else this.send(upstream, this.outgoingNow());
  }

  /** The request as the cluster gets it. */
  protected outgoingNow(): OutgoingRequest {
    const { outgoing } = this;
    return outgoing.isCommon ? outgoing : requestTo(this.parts, this.destination, outgoing, this.proxied);
  }

  protected giveUp({ error, stage }: AttemptFailure): void {
    this.parts.responses.failure(this.proxied, error, stage === 'responding');
  }

  protected override onFailure(failure: AttemptFailure): void {
    const { upstream } = this;
    if (upstream !== null && this.#mayRepeat(failure)) {
      this.#repeats++;
      this.send(upstream, this.outgoingNow());
    } else this.onClusterFailure(failure);
  }

  /**
   * True if the same cluster gets the request again, once. An idle connection may be closed just as the request is
   * written; these methods may be repeated (RFC 9110 §9.2.2).
   */
  #mayRepeat({ error, stage }: AttemptFailure): boolean {
    if (stage !== 'sent' || this.#repeats > 0 || !isReset(error) || this.outgoing.body !== null) return false;
    const { method } = this.proxied;
    return method === 'GET' || method === 'HEAD' || method === 'DELETE';
  }

  protected override onEnd(end: ExchangeEnd): void {
    const isCut = end === 'client_gone' || end === 'cut';
    const { status } = this;
    const cluster = status === 0 ? null : this.destination.name;
    this.parts.metrics.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, status, cluster);
  }
}

/** Destination of a request without a query, by a decision like that of a submission. */
export interface OtherRoute {
  readonly decision: GroupDecision;
  readonly cluster: ClusterEntry;
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** A step of an OAuth2 login, whose cookie the response sets or ends; null for all other requests. */
  readonly handshake: Handshake | null;
}

export const anybody = ({ request }: ProxiedRequest): PickRequest => ({ user: null, headers: request.rawHeaders });

/** A request that is neither a submission nor about a query. The next cluster takes it where one cannot be connected to. */
export class OtherExchange extends ForwardExchange {
  #route: OtherRoute;
  /** Clusters that could not be connected to, with the reasons; null for none. */
  #excluded: Map<string, string> | null = null;

  constructor(parts: ExchangeParts, proxied: ProxiedRequest, route: OtherRoute) {
    super(parts, proxied, route.decision);
    this.#route = route;
    this.destination = route.cluster;
  }

  protected override respondingCluster(): RespondingCluster {
    return this.#route;
  }

  protected override queryId(): null {
    return null;
  }

  protected override onClusterFailure(failure: AttemptFailure): void {
    const mayGoElsewhere = failure.stage === 'connecting' && !isOwnFault(failure.error) && this.outgoing.body === null;
    if (mayGoElsewhere) this.#elsewhere(failure.reason);
    else this.giveUp(failure);
  }

  /** The next cluster of the group takes over, as nothing was sent yet. */
  #elsewhere(reason: string): void {
    const { decision, cluster: failed, handshake } = this.#route;
    this.#excluded ??= new Map();
    this.#excluded.set(failed.name, reason);
    const login = handshake?.login ?? null;
    const target = chooseTarget(this.parts, decision, anybody(this.proxied), this.#excluded, login);
    if (target.cluster === null) this.reject({ ...target.refusal, reason: 'no_cluster' });
    else if (target.upstream === null) {
      const message = `proxyTo of cluster ${target.cluster.name} is not an HTTP URL`;
      this.reject(toRefusal('no_cluster', message));
    } else {
      const { cluster, fallback, steps } = target;
      this.#route = { decision, cluster, fallback, steps, handshake };
      this.destination = cluster;
      this.sendTo(target.upstream);
    }
  }
}

/** Delay of a repeated request about a query that can continue elsewhere. */
const REPEAT_MS = 500;
const CANCEL_TIMEOUT_MS = 5_000;

/** A request about a query: it goes to the owner, and to another one where there is one that the first does not know of. */
export class FollowUpExchange extends ForwardExchange {
  readonly #queryId: string;
  #owner: QueryOwner;
  /** Source of the owner: the step that sent the request here, or `#rerouted`. */
  #source: 'request' | 'database' | 'moved' = 'request';
  #hasSearched = false;
  /** The transaction that the response begins is being stored. */
  #beginning: Promise<void> | null = null;
  /** Time of the first failure of a request that is repeated, as its query may continue elsewhere. */
  #failingSince: number | null = null;
  /** Reads a page once it is certain that the client gets it. */
  #pageWatch: ResponseWatch | null = null;

  constructor(parts: ExchangeParts, proxied: ProxiedRequest, queryId: string, owner: QueryOwner) {
    super(parts, proxied, null);
    this.#queryId = queryId;
    this.#owner = owner;
    this.destination = { name: owner.cluster, proxyTo: owner.proxyTo };
  }

  protected override respondingCluster(): RespondingCluster {
    const cluster = ownerCluster(this.parts.table.current, this.#owner);
    return { cluster, decision: null, fallback: false, steps: null, handshake: null };
  }

  protected override queryId(): string {
    return this.#queryId;
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    const { statementPath, pathKind, method } = this.proxied;
    const { transactions, stickiness } = this.parts;
    if (statementPath) {
      this.watch = new ResponseWatch(this.parts, this.#queryId, this.#owner.cluster, method, { status, headers });
      // The owner responds at a new address: the next request goes there immediately.
      if (this.#source === 'moved' && status === 200) void stickiness.claims.learn(this.#queryId, this.#owner);
    }
    const isMarked = this.proxied.survival !== undefined && this.#mark !== null;
    if (status === 200 && isMarked && headers['content-encoding'] === undefined) {
      // A page with an error that is retried is not the end of the query.
      this.#pageWatch = this.watch;
      this.watch = null;
      return true;
    }
    if (status === 200 && statementPath) {
      let isOfTransaction = false;
      for (const key of transactions.responseKeys) isOfTransaction ||= headers[key] !== undefined;
      if (isOfTransaction) this.#beginning = transactions.noteResponse(this.#queryId, headers, this.#owner);
      return isOfTransaction && this.#beginning !== null;
    }
    // A coordinator that does not know the query: perhaps another one does, and if not, the client learns why.
    return (status === 404 || status === 410) && pathKind !== 'ui' && this.outgoing.body === null;
  }

  /** Mark of a poll of a query without rows, if the query can continue on another cluster; null for all others. */
  get #mark(): SurvivalMark | null {
    const { method, survival } = this.proxied;
    return survival !== undefined && method === 'GET' && this.parts.survival !== null ? survival : null;
  }

  /** Marks a page of a query that can continue on another cluster, as long as its client has no rows. */
  #inspectPage(mark: SurvivalMark, buffered: BufferedResponse): void {
    const page = this.parts.survival?.page(mark, buffered) ?? null;
    if (page === 'partial') return;
    buffered.isDeciding = true;
    if (page === 'different') {
      this.pauseResponse();
      void this.#rejectAttempt(mark);
    } else if (page === null || Buffer.isBuffer(page)) this.#respondPage(buffered, page);
    else {
      void this.#continued(page.reason, page).then((isRetried) => {
        if (isRetried) return;
        this.parts.survival?.settle(mark.id);
        this.#respondPage(buffered, null);
      });
    }
  }

  /** @param page in place of the body; null: the client gets the body */
  #respondPage(buffered: BufferedResponse, page: Buffer | null): void {
    const watch = this.#pageWatch;
    watch?.readAll(buffered);
    if (!buffered.isWhole) this.watch = watch;
    if (page !== null) this.replaceBody(buffered, page);
    this.release();
  }

  /** Ends an attempt with other columns than its client has: the client gets the first error. */
  async #rejectAttempt(mark: SurvivalMark): Promise<void> {
    const { survival } = this.parts;
    const first = await survival?.firstErrorOf(mark).catch(() => null);
    if (this.upstream !== null) void this.#cancel(this.upstream);
    await survival?.cancel(mark, this.#queryId);
    if (!this.isAwaited) return;
    this.discard();
    survival?.respondFirstError(this.proxied, this.#queryId, first ?? null);
  }

  /**
   * Queues the next attempt of a query that its cluster lost or could not finish.
   * @param failure null if the cluster is lost
   * @returns false if its client gets the error
   */
  async #continued(reason: string, failure: FailedPage | null = null): Promise<boolean> {
    const mark = this.#mark;
    const { survival, logger } = this.parts;
    if (mark === null || survival === null) return false;
    const isCertain = failure === null && (this.status === 0 || this.parts.stickiness.isSuperseded(this.#queryId));
    const lost = { queryId: this.#queryId, cluster: this.#owner.cluster, reason, page: failure?.text, isCertain };
    try {
      const failed = failure === null ? null : { error: failure.error, end: () => this.#endAttempt() };
      if (!(await survival.retry(mark, lost, failed))) return false;
      this.proxied.trace?.note({ 'engine_gateway.continued_as': mark.id });
      if (this.isAwaited) {
        this.discard();
        survival.poll(this.proxied, mark);
      }
    } catch (error) {
      logger.warn({ err: error, queryId: this.#queryId }, 'failed to retry lost query');
      // The error of its cluster is a response; a lost query may continue once the database is back.
      if (failure !== null) return false;
      if (this.isAwaited) {
        this.discard();
        this.reject(undecidedQuery(this.#queryId));
      }
    }
    return true;
  }

  /** Cancels the failed attempt at its cluster before the next one is sent. Never rejects. */
  async #endAttempt(): Promise<void> {
    const { target, headers } = this.outgoingNow();
    await this.upstream?.ask('DELETE', target, headers, CANCEL_TIMEOUT_MS).catch(() => undefined);
  }

  /** True if a failed request is repeated a little later, as its query may continue: on this cluster, or on another one. */
  #isRepeated({ stage, error }: AttemptFailure, isGone: boolean): boolean {
    const { upstream } = this;
    const { clock, settings } = this.parts;
    if (this.#mark === null || upstream === null || isGone) return false;
    if (stage !== 'connecting' && !isReset(error)) return false;
    const now = clock.monotonic();
    this.#failingSince ??= now;
    if (now - this.#failingSince >= 2 * settings.ownerGoneAfter) return false;
    setTimeout(
      () => {
        if (this.isAwaited) this.sendTo(upstream);
      },
      Math.min(REPEAT_MS, settings.ownerGoneAfter),
    ).unref();
    return true;
  }

  protected override inspect(buffered: BufferedResponse): void {
    const mark = buffered.status === 200 && this.proxied.survival !== undefined ? this.#mark : null;
    if (mark !== null) {
      this.#inspectPage(mark, buffered);
      return;
    }
    buffered.isDeciding = true;
    this.pauseResponse();
    if (this.#beginning !== null) void this.#beginning.then(() => this.release());
    else void this.#rerouted(true).then(async (isSent) => isSent || (await this.#respondUnknown()));
  }

  /** The owner does not know the query, and no one else has it. */
  async #respondUnknown(): Promise<void> {
    if (!this.isAwaited || (await this.#continued(this.#lossReason() ?? 'it does not know the query'))) return;
    if (this.proxied.statementPath) this.parts.outcomes.lose(this.#queryId, this.#owner.cluster);
    const why = this.#lossReason();
    if (why === null) this.release();
    else {
      this.discard();
      this.reject(ownerGone(this.#queryId, this.#owner.cluster, why));
    }
  }

  /** Reason that the query is lost if its owner does not know it; null if the owner's response is sufficient. */
  #lossReason(): string | null {
    const { stickiness, settings } = this.parts;
    const { statementPath, method } = this.proxied;
    if (!statementPath || settings.statementErrors === 'http') return null;
    if (stickiness.isSuperseded(this.#queryId)) return 'it was restarted since';
    // A GET that gets a response 404 ends the query for its client, who learns more from the reason than from the bare status.
    return this.status === 404 && method === 'GET' ? 'it does not know the query any more' : null;
  }

  protected override onClusterFailure(failure: AttemptFailure): void {
    const unreachableFor = this.upstream?.unreachableFor() ?? 0;
    const isGone = failure.stage === 'connecting' && unreachableFor >= this.parts.settings.ownerGoneAfter;
    if (this.#isRepeated(failure, isGone)) return;
    if (failure.stage !== 'connecting' || this.outgoing.body !== null) void this.#respondFailed(failure, isGone);
    else {
      // A cluster that has just begun to reject is given time to come back before it is looked for elsewhere.
      void this.#rerouted(isGone).then((isSent) => {
        if (!isSent && this.isAwaited) void this.#respondFailed(failure, isGone);
      });
    }
  }

  /** The owner failed, and no one else has the query. */
  async #respondFailed(failure: AttemptFailure, isGone: boolean): Promise<void> {
    if (isGone && (await this.#continued(failure.reason))) return;
    if (isGone && this.proxied.statementPath) {
      this.parts.outcomes.lose(this.#queryId, this.#owner.cluster);
      this.reject(ownerGone(this.#queryId, this.#owner.cluster, failure.reason));
    } else this.giveUp(failure);
  }

  /**
   * Sends the request to another owner: that of the database, which another replica may have changed.
   * @param mayHaveMoved true if the address that the cluster has now counts too: its coordinator may have moved there, and
   * the replica that noticed could not record it
   * @returns false where it was not sent: the caller responds
   */
  async #rerouted(mayHaveMoved: boolean): Promise<boolean> {
    if (this.#hasSearched) return false;
    this.#hasSearched = true;
    const { stickiness, table, upstreams } = this.parts;
    const failed = this.#owner;
    const isElsewhere = (owner: QueryOwner | null) => owner !== null && owner.proxyTo !== failed.proxyTo;
    const stored = await stickiness.findStored(this.#queryId);
    const isStored = isElsewhere(stored);
    const owner = isStored ? stored : mayHaveMoved ? movedOwner(table.current, failed) : null;
    const upstream = owner === null || !isElsewhere(owner) ? null : upstreams.get(owner.proxyTo);
    if (owner === null || upstream === null || !this.isAwaited) return false;
    this.discard();
    this.#source = isStored ? 'database' : 'moved';
    this.#owner = owner;
    this.destination = { name: owner.cluster, proxyTo: owner.proxyTo };
    this.sendTo(upstream);
    return true;
  }

  protected override onEnd(end: ExchangeEnd): void {
    this.proxied.trace?.note({ 'engine_gateway.query_id': this.#queryId });
    super.onEnd(end);
    const { upstream } = this;
    const isPoll = this.proxied.statementPath && this.proxied.method === 'GET';
    if (end === 'client_gone' && isPoll && upstream !== null && this.parts.settings.cancelQueryOnDisconnect) {
      void this.#cancel(upstream);
    }
  }

  /**
   * Ends the query, as its client went away while it waited for a response (`routing.cancelQueryOnDisconnect`): a DELETE of
   * the URL of its request, with its credentials, as clients cancel queries themselves.
   */
  async #cancel(upstream: Upstream): Promise<void> {
    const { runningQueries, outcomes, logger } = this.parts;
    const queryId = this.#queryId;
    const { cluster } = this.#owner;
    const { proxyTo } = upstream;
    try {
      const { target, headers, headersTimeout } = this.outgoingNow();
      const { status } = await upstream.ask('DELETE', target, headers, headersTimeout);
      if (status < 300 || status === 404 || status === 410) {
        runningQueries.noteEnd(queryId, cluster);
        outcomes.cancel(queryId, cluster);
      }
      logger.info({ queryId, proxyTo, status }, 'query cancelled; client disconnected');
    } catch (error) {
      logger.warn({ queryId, proxyTo, err: error }, 'failed to cancel query');
    }
  }
}
