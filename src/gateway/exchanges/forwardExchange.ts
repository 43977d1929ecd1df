import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { explainNoCluster } from '../../routing/clusterChoice.ts';
import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { hasBody } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import { BodyRelay, type RelayFault } from '../bodies/bodyRelay.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { tellingPrefix } from '../ownership/clusterKeys.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import { movedOwner, type QueryOwner } from '../ownership/queryOwner.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import type { Handshake, HandshakeCookies } from '../pages/handshakeCookies.ts';
import { classify, isHeadTooLarge, isOwnFault, isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { AnswerWatch } from './answerWatch.ts';
import { cancelQuery } from './cancelQuery.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
import { explainLine } from './explain.ts';

/** Why a request goes where it goes: the query it belongs to, or a decision like that of a submission. */
export type ForwardReason = { readonly queryId: string; readonly owner: QueryOwner } | OtherReason;

/** A decision like that of a submission. */
export interface OtherReason {
  readonly queryId: null;
  readonly decision: GroupDecision;
  readonly cluster: ClusterEntry;
  readonly fallback: boolean;
  /** A step of an OAuth2 login, whose cookie the answer sets or ends; null for all other requests. */
  readonly handshake: Handshake | null;
}

/** Any proxied request but a submission: streamed through to one cluster. */
export class ForwardExchange extends Exchange {
  readonly #context: DataPlaneContext;
  readonly #proxied: ProxiedRequest;
  readonly #outgoing: OutgoingRequest;
  #reason: ForwardReason;
  #repeated = false;
  #rerouted = false;
  #bodyFault: RelayFault | null = null;
  #started = false;
  #excluded: Map<string, string> | null = null;
  #looking = false;
  #moved = false;
  #watch: AnswerWatch | null = null;
  /** The transaction that the answer begins is being stored. */
  #beginning: Promise<void> | null = null;

  constructor(context: DataPlaneContext, proxied: ProxiedRequest, reason: ForwardReason) {
    super(proxied.request, proxied.response, {
      stallTimeout: context.settings().clientStallTimeout,
      judgesCluster: proxied.statementPath,
      answerHeaders: context.answerHeaders,
    });
    this.#context = context;
    this.#proxied = proxied;
    this.#reason = reason;
    const { request, method } = proxied;
    const settings = context.settings();
    this.#outgoing = {
      method,
      target: proxied.rawTarget,
      headers: context.headers.forCluster(
        request,
        false,
        reason.queryId === null ? setHeadersOf(reason.decision) : null,
      ),
      body: hasBody(request)
        ? new BodyRelay(request, null, settings.maxBodySize, context.bodies, (fault) => {
            this.#bodyFault = fault;
          })
        : null,
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** Only answers of the statement protocol tell whether the query goes on. */
  #newWatch(): AnswerWatch | null {
    const { runningQueries } = this.#context;
    const { statementPath, method } = this.#proxied;
    const reason = this.#reason;
    if (runningQueries === null || reason.queryId === null || !statementPath) return null;
    return new AnswerWatch(runningQueries, reason.queryId, reason.owner.cluster, method);
  }

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    if (status >= 200) {
      this.#watch = this.#newWatch();
      this.#watch?.begin(status, headers);
      if (this.#moved) this.#noteMoved(status);
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

  /** Starts toward the upstream of the reason. */
  start(upstream: Upstream): void {
    if (!this.#started && this.#outgoing.body !== null && !this.#context.bodies.relay(this.request)) {
      this.#context.refuse(this.#proxied, this.#refusalOf('request_memory'));
      return;
    }
    this.#started = true;
    if (upstream.overloaded) {
      this.#context.refuse(this.#proxied, overloaded(this.#clusterName()));
      return;
    }
    this.send(upstream, this.#outgoingTo(upstream));
  }

  /** With the cluster's own cookies alone. Answers of statement paths hold URLs: only there it is told its prefix. */
  #outgoingTo(upstream: Upstream): OutgoingRequest {
    const { trace, statementPath, pathKind, target } = this.#proxied;
    const { engineCookies, prefixes } = this.#context;
    if (trace === null && engineCookies === null && (!statementPath || prefixes === null)) return this.#outgoing;
    const cluster = this.#clusterName();
    const { headers: sent } = this.#outgoing;
    const isPage = pathKind === 'ui' || target.path.startsWith('/oauth2');
    const headers = engineCookies?.forCluster(sent, this.clusterIdentity(), isPage) ?? sent;
    const told = statementPath ? tellingPrefix(this.#context, headers, cluster) : headers;
    const lines = trace === null ? told : [...told, ...trace.toCluster(cluster, upstream.baseUrl)];
    return { ...this.#outgoing, headers: lines };
  }

  protected override failed(error: Error): void {
    const { upstream } = this;
    if (upstream === null) return;
    if (this.#bodyFault !== null) {
      this.#context.refuse(this.#proxied, this.#refusalOf(this.#bodyFault));
      return;
    }
    const { type, reason } = classify(error, this.sent);
    const cluster = this.#clusterName();
    this.#context.metrics.clusterError(cluster, type);
    this.#proxied.trace?.failed(reason);
    this.#context.logger.debug({ cluster, baseUrl: upstream.baseUrl, err: error }, 'cluster did not answer');
    if (isHeadTooLarge(error)) {
      this.#context.refuse(this.#proxied, answerHeadTooLarge(cluster, this.#reason.queryId));
      return;
    }
    if (!this.sent && !isOwnFault(error)) this.#context.connectionFailed(cluster, upstream.baseUrl, reason);
    const { method } = this.#proxied;
    const idempotent = (method === 'GET' || method === 'HEAD' || method === 'DELETE') && this.#outgoing.body === null;
    if (this.sent && !this.answered && isReset(error) && !this.#repeated && idempotent) {
      // An idle connection may be closed just as the request is written; these methods may be repeated (RFC 9110 §9.2.2).
      this.#repeated = true;
      this.send(upstream, this.#outgoingTo(upstream));
      return;
    }
    if (this.#reason.queryId !== null) this.#ownerFailed(this.#reason.queryId, upstream, error, reason);
    else if (this.sent || isOwnFault(error) || this.#outgoing.body !== null) this.#giveUp(error);
    else this.#elsewhere(this.#reason, reason);
  }

  #refusalOf(fault: RelayFault | 'request_memory') {
    const { bodies, settings } = this.#context;
    return bodyRefusal(fault, bodies, settings().maxBodySize);
  }

  protected override serverFailed(reason: string, inARow: number): void {
    const baseUrl = this.upstream?.baseUrl ?? '';
    this.#context.serverFailed(this.#clusterName(), baseUrl, reason, inARow);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    const { queryId } = this.#reason;
    if (status === 200 && queryId !== null && this.#proxied.statementPath) {
      this.#beginning = this.#context.transactions.answered(queryId, headers, this.#reason.owner);
      return this.#beginning !== null;
    }
    // A coordinator that does not know the query: perhaps another one does, and if not, the client is told why.
    return (
      (status === 404 || status === 410) &&
      queryId !== null &&
      this.#proxied.pathKind !== 'ui' &&
      this.#outgoing.body === null
    );
  }

  protected override heldMore(): void {
    if (this.#looking || this.#reason.queryId === null) return;
    this.#looking = true;
    this.pauseHeld();
    if (this.#beginning !== null) {
      void this.#beginning.then(() => this.release());
      return;
    }
    const { queryId } = this.#reason;
    void this.#reroute(queryId, true).then((done) => {
      if (done || this.clientGone) return;
      const why = this.#lostBecause(queryId);
      if (why === null) this.release();
      else {
        this.discard();
        this.#context.refuse(this.#proxied, ownerGone(queryId, this.#clusterName(), why));
      }
    });
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { names, handshakes, places, settings } = this.#context;
    const { explainHeader } = settings();
    const isPage = places !== null && this.#proxied.pathKind === 'ui';
    if (handshakes === null && !explainHeader && !isPage) return null;
    const cluster = this.#clusterName();
    const lines = handshakes === null ? [] : [...this.#cookieLines(handshakes, headers, cluster)];
    if (isPage) {
      const { status } = this;
      const ofQuery = this.#reason.queryId !== null;
      lines.push(...places.linesFor(this.#proxied, { cluster: this.clusterIdentity(), status, ofQuery }));
    }
    if (!explainHeader) return lines;
    const reason = this.#reason;
    return reason.queryId === null
      ? [...lines, ...explainLine(names, reason.decision, cluster, reason.fallback)]
      : [...lines, ...explainLine(names, null, cluster, false)];
  }

  /** Lines that set or end the cookie of an OAuth2 login. */
  #cookieLines(handshakes: HandshakeCookies, headers: IncomingHttpHeaders, cluster: string): readonly string[] {
    const lines = handshakes.linesOfLogin(headers, cluster);
    if (lines.length > 0 || this.#reason.queryId !== null) return lines;
    return this.#reason.handshake?.linesFor(cluster) ?? [];
  }

  protected override finished(end: ExchangeEnd): void {
    const { trace } = this.#proxied;
    if (this.#reason.queryId !== null) trace?.note({ 'engine_gateway.query_id': this.#reason.queryId });
    this.#context.noteEnd(this.#proxied, end === 'client_gone' ? 0 : this.response.statusCode, this.status);
    if (end === 'client_gone' && !this.cut) this.#cancelAbandoned();
  }

  /** The client that polled a query is gone: with it the query, where that is wanted. */
  #cancelAbandoned(): void {
    const { upstream } = this;
    const { queryId } = this.#reason;
    const { method, statementPath } = this.#proxied;
    if (upstream === null || queryId === null || !statementPath || method !== 'GET') return;
    if (this.#context.settings().cancelQueryOnDisconnect)
      cancelQuery(this.#context, queryId, upstream, this.#outgoingTo(upstream));
  }

  protected override clusterIdentity(): ClusterIdentity {
    const reason = this.#reason;
    return reason.queryId === null ? reason.cluster : ownerCluster(this.#context.table.current, reason.owner);
  }

  #clusterName(): string {
    return this.#reason.queryId === null ? this.#reason.cluster.name : this.#reason.owner.cluster;
  }

  #giveUp(error: Error): void {
    this.#context.answerFailure(this.#proxied, error, this.answered);
  }

  /** Why a query is lost whose cluster does not know it; null where the cluster's own answer says enough. */
  #lostBecause(queryId: string): string | null {
    if (!this.#proxied.statementPath || this.#context.settings().statementErrors === 'http') return null;
    if (this.#context.stickiness.isSuperseded(queryId)) return 'it was restarted since';
    // A GET that is answered 404 ends the query for its client; the reason is better told than the bare status.
    return this.status === 404 && this.#proxied.method === 'GET' ? 'it does not know the query any more' : null;
  }

  /** The next cluster of the group takes over, as nothing was sent yet. */
  #elsewhere({ decision, cluster: failed, handshake }: OtherReason, reason: string): void {
    const { table, settings, chooser, upstreams } = this.#context;
    this.#excluded ??= new Map();
    this.#excluded.set(failed.name, reason);
    const { defaultRoutingGroup } = settings();
    const choice = chooser.choose(table.current, decision, null, this.#excluded, handshake?.login ?? null);
    const upstream = choice.cluster === null ? null : upstreams.get(choice.cluster.proxyTo);
    if (choice.cluster === null || upstream === null) {
      const notTaken = choice.cluster === null ? choice.notTaken : [];
      this.#context.refuse(this.#proxied, {
        reason: 'no_cluster',
        message: explainNoCluster(decision, notTaken, defaultRoutingGroup),
        queryId: null,
      });
      return;
    }
    this.#reason = { queryId: null, decision, cluster: choice.cluster, fallback: choice.fallback, handshake };
    this.start(upstream);
  }

  #ownerFailed(queryId: string, upstream: Upstream, error: Error, reason: string): void {
    const refused = !this.sent && upstream.unreachableFor() >= this.#context.settings().ownerGoneAfter;
    const giveUp = () => {
      if (refused && this.#proxied.statementPath) {
        this.#context.refuse(this.#proxied, ownerGone(queryId, this.#clusterName(), reason));
      } else this.#giveUp(error);
    };
    if (this.sent || this.#outgoing.body !== null) giveUp();
    else {
      // A cluster that has just begun to refuse is given time to come back before it is looked for elsewhere.
      void this.#reroute(queryId, refused).then((done) => {
        if (!done && !this.clientGone) giveUp();
      });
    }
  }

  /**
   * Sends the request to another owner, if there is one: that of the database, which another replica may have changed.
   * @param mayHaveMoved whether the address that the cluster has now counts too: its coordinator may have moved there, and
   *   whoever saw that could not write it down
   */
  async #reroute(queryId: string, mayHaveMoved: boolean): Promise<boolean> {
    if (this.#rerouted) return false;
    this.#rerouted = true;
    const stored = await this.#context.stickiness.findStored(queryId);
    const moved = mayHaveMoved && !this.#isElsewhere(stored);
    const { owner: asked } = this.#reason as { readonly owner: QueryOwner };
    const owner = moved ? movedOwner(this.#context.table.current, asked) : stored;
    if (!this.#isElsewhere(owner) || this.clientGone) return false;
    const upstream = this.#context.upstreams.get(owner.baseUrl);
    if (upstream === null) return false;
    this.discard();
    this.#looking = false;
    this.#moved = moved;
    this.#reason = { queryId, owner };
    this.start(upstream);
    return true;
  }

  #isElsewhere(owner: QueryOwner | null): owner is QueryOwner {
    return owner !== null && owner.baseUrl !== this.upstream?.baseUrl;
  }

  /** The next request need not ask at the old address first, which may take as long as a connection may. */
  #noteMoved(status: number): void {
    const reason = this.#reason;
    if (status !== 200 || reason.queryId === null || !this.#proxied.statementPath) return;
    void this.#context.stickiness.learn(reason.queryId, reason.owner);
  }
}

/** The refusal of a follow-up whose cluster is gone. */
function ownerGone(queryId: string, cluster: string, why: string) {
  return {
    reason: 'owner_gone' as const,
    message: `Query ${queryId} was lost with its cluster${cluster === '' ? '' : ` "${cluster}"`}: ${why}. Run the query again.`,
    queryId,
  };
}

/** The refusal of a statement about a query whose cluster cannot be connected to: no other one can take it. */
export function unreachableOwner(queryId: string, cluster: string, why: string) {
  return {
    reason: 'owner_gone' as const,
    message: `The cluster${cluster === '' ? '' : ` "${cluster}"`} of query ${queryId} cannot be reached: ${why}.`,
    queryId: null,
  };
}

/** The refusal of a request that would have to wait behind too many others. */
export function overloaded(cluster: string) {
  return {
    reason: 'overloaded' as const,
    message: `Too many requests are waiting for cluster "${cluster}".`,
    queryId: null,
  };
}

/** The refusal of a request whose answer has headers over the limit. */
export function answerHeadTooLarge(cluster: string, queryId: string | null) {
  const key = 'serverConfig."http-server.max-response-header-size"';
  return {
    reason: 'answer_head_too_large' as const,
    message: `The headers of the answer of cluster "${cluster}" are larger than the gateway takes (${key}).`,
    queryId,
  };
}
