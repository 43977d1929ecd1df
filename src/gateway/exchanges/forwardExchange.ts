import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ChoiceStep } from '../../routing/clusterChoice.ts';
import type { PickRequest } from '../../routing/clusterChooser.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import { toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { hasBody, noMemoryForBody } from '../bodies/requestBodies.ts';
import type { ExchangeParts } from '../dataPlane.ts';
import { movedOwner, ownerCluster, type QueryOwner } from '../ownership/queryOwner.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isOwnFault, isReset, type Upstream } from '../upstreams/upstreams.ts';
import { type AttemptFailure, Exchange, type ExchangeEnd } from './exchange.ts';
import {
  chooseTarget,
  type Destination,
  type OutgoingRequest,
  outgoingRequest,
  requestTo,
} from './outgoingRequests.ts';
import { overloaded, ownerGone } from './ownResponses.ts';
import type { RespondingCluster } from './responseHeaders.ts';
import { ResponseWatch } from './responseWatch.ts';

/** Any proxied request but a submission: streamed through to one cluster. */
export abstract class ForwardExchange extends Exchange {
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(parts: ExchangeParts, proxied: ProxiedRequest, decision: GroupDecision | null) {
    super(parts, proxied);
    const body = hasBody(proxied.request) ? this.relay(null) : null;
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
    if (upstream.overloaded) this.reject(overloaded(this.destination().name));
    else this.send(upstream, this.outgoingNow());
  }

  /** The request as the cluster gets it. */
  protected outgoingNow(): OutgoingRequest {
    return requestTo(this.parts, this.destination(), this.outgoing, this.proxied, false);
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
    const cluster = status === 0 ? null : this.destination().name;
    this.parts.responses.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, status, cluster);
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
  }

  protected override destination(): Destination {
    return this.#route.cluster;
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
      this.sendTo(target.upstream);
    }
  }
}

/** A request about a query: it goes to the owner, and to another one where there is one that the first does not know of. */
export class FollowUpExchange extends ForwardExchange {
  readonly #queryId: string;
  #owner: QueryOwner;
  /** Source of the owner: the step that sent the request here, or `#rerouted`. */
  #source: 'request' | 'database' | 'moved' = 'request';
  #hasSearched = false;
  #watch: ResponseWatch | null = null;
  /** The transaction that the response begins is being stored. */
  #beginning: Promise<void> | null = null;

  constructor(parts: ExchangeParts, proxied: ProxiedRequest, queryId: string, owner: QueryOwner) {
    super(parts, proxied, null);
    this.#queryId = queryId;
    this.#owner = owner;
  }

  protected override destination(): Destination {
    return { name: this.#owner.cluster, proxyTo: this.#owner.proxyTo };
  }

  protected override respondingCluster(): RespondingCluster {
    const cluster = ownerCluster(this.parts.table.current, this.#owner);
    return { cluster, decision: null, fallback: false, steps: null, handshake: null };
  }

  protected override queryId(): string {
    return this.#queryId;
  }

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    const { statementPath, method } = this.proxied;
    if (status >= 200 && statementPath) {
      this.#watch = new ResponseWatch(this.parts, this.#queryId, this.#owner.cluster, method);
      this.#watch.begin(status, headers);
      // The owner responds at a new address: the next request goes there immediately.
      if (this.#source === 'moved' && status === 200) void this.parts.stickiness.learn(this.#queryId, this.#owner);
    }
    super.onResponseStart(controller, status, headers, statusText);
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#watch?.data(chunk);
    super.onResponseData(controller, chunk);
  }

  override onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#watch?.end();
    super.onResponseEnd(controller, trailers);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    const { statementPath, pathKind } = this.proxied;
    if (status === 200 && statementPath) {
      this.#beginning = this.parts.transactions.noteResponse(this.#queryId, headers, this.#owner);
      return this.#beginning !== null;
    }
    // A coordinator that does not know the query: perhaps another one does, and if not, the client learns why.
    return (status === 404 || status === 410) && pathKind !== 'ui' && this.outgoing.body === null;
  }

  protected override inspect(): void {
    this.decide();
    this.pauseResponse();
    if (this.#beginning !== null) void this.#beginning.then(() => this.release());
    else void this.#rerouted(true).then((isSent) => isSent || this.#respondUnknown());
  }

  /** The owner does not know the query, and no one else has it. */
  #respondUnknown(): void {
    if (!this.isAwaited) return;
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
    if (failure.stage !== 'connecting' || this.outgoing.body !== null) this.#respondFailed(failure, isGone);
    else {
      // A cluster that has just begun to reject is given time to come back before it is looked for elsewhere.
      void this.#rerouted(isGone).then((isSent) => {
        if (!isSent && this.isAwaited) this.#respondFailed(failure, isGone);
      });
    }
  }

  /** The owner failed, and no one else has the query. */
  #respondFailed(failure: AttemptFailure, isGone: boolean): void {
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
