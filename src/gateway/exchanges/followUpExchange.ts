import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { AnswerWatch } from './answerWatch.ts';
import { cancelQuery } from './cancelQuery.ts';
import type { ExchangeEnd } from './exchange.ts';
import type { FollowUpDependencies } from './exchangeDependencies.ts';
import { ownerGone } from './exchangeRefusals.ts';
import { explainLine } from './explain.ts';
import { type FailedForward, ForwardExchange } from './forwardExchange.ts';
import { OwnerReroute } from './ownerReroute.ts';

/** The query of a follow-up, and the cluster that runs it. */
export interface OwnedQuery {
  readonly queryId: string;
  readonly owner: QueryOwner;
}

/** A request about a query: it goes to the owner, and to another one where there is one that the first does not know of. */
export class FollowUpExchange extends ForwardExchange<FollowUpDependencies> {
  readonly #queryId: string;
  #owner: QueryOwner;
  /** How the owner was found: by the step that sent the request here, or by `#reroute`. */
  #source: 'request' | 'database' | 'moved' = 'request';
  /** Null until another owner is looked for, which happens once. */
  #reroute: OwnerReroute | null = null;
  #watch: AnswerWatch | null = null;
  /** The transaction that the answer begins is being stored. */
  #beginning: Promise<void> | null = null;

  constructor(dependencies: FollowUpDependencies, proxied: ProxiedRequest, { queryId, owner }: OwnedQuery) {
    super(dependencies, proxied, null);
    this.#queryId = queryId;
    this.#owner = owner;
  }

  protected override clusterName(): string {
    return this.#owner.cluster;
  }

  protected override clusterIdentity(): ClusterIdentity {
    return ownerCluster(this.dependencies.table.current, this.#owner);
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
    if (status >= 200) {
      this.#watch = this.#newWatch();
      this.#watch?.begin(status, headers);
      if (this.#source === 'moved') this.#learnMoved(status);
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

  /** Only answers of the statement protocol say whether the query goes on. */
  #newWatch(): AnswerWatch | null {
    const { runningQueries } = this.dependencies;
    const { statementPath, method } = this.proxied;
    if (!statementPath) return null;
    return new AnswerWatch(runningQueries, this.#queryId, this.#owner.cluster, method);
  }

  /** The next request need not ask at the old address first, which may take as long as a connection may. */
  #learnMoved(status: number): void {
    if (status !== 200 || !this.proxied.statementPath) return;
    void this.dependencies.stickiness.learn(this.#queryId, this.#owner);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    const { statementPath, pathKind } = this.proxied;
    if (status === 200 && statementPath) {
      this.#beginning = this.dependencies.transactions.noteAnswer(this.#queryId, headers, this.#owner);
      return this.#beginning !== null;
    }
    // A coordinator that does not know the query: perhaps another one does, and if not, the client learns why.
    return (status === 404 || status === 410) && pathKind !== 'ui' && this.outgoing.body === null;
  }

  protected override inspect(): void {
    this.decide();
    this.pauseAnswer();
    if (this.#beginning !== null) void this.#beginning.then(() => this.release());
    else void this.#rerouted(true).then((isSent) => isSent || this.#answerUnknown());
  }

  /** The owner does not know the query, and nobody else has it. */
  #answerUnknown(): void {
    if (!this.isAwaited) return;
    const why = this.#lostBecause();
    if (why === null) this.release();
    else {
      this.discard();
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, why));
    }
  }

  /** Why a query is lost whose cluster does not know it; null where the cluster's own answer says enough. */
  #lostBecause(): string | null {
    const { stickiness, settings } = this.dependencies;
    if (!this.proxied.statementPath || settings().statementErrors === 'http') return null;
    if (stickiness.isSuperseded(this.#queryId)) return 'it was restarted since';
    // A GET that is answered 404 ends the query for its client, who learns more from the reason than from the bare status.
    return this.status === 404 && this.proxied.method === 'GET' ? 'it does not know the query any more' : null;
  }

  protected override clusterFailed(failure: FailedForward): void {
    const { upstream, stage } = failure;
    const isGone = stage === 'connecting' && upstream.unreachableFor() >= this.dependencies.settings().ownerGoneAfter;
    if (stage !== 'connecting' || this.outgoing.body !== null) this.#answerFailed(failure, isGone);
    else {
      // A cluster that has just begun to refuse is given time to come back before it is looked for elsewhere.
      void this.#rerouted(isGone).then((isSent) => {
        if (!isSent && this.isAwaited) this.#answerFailed(failure, isGone);
      });
    }
  }

  /** The owner failed, and nobody else has the query. */
  #answerFailed(failure: FailedForward, isGone: boolean): void {
    if (isGone && this.proxied.statementPath) {
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, failure.reason));
    } else this.giveUp(failure);
  }

  /**
   * Sends the request to another owner.
   * @param mayHaveMoved see `OwnerReroute.find`
   * @returns false where it was not sent: the caller answers
   */
  async #rerouted(mayHaveMoved: boolean): Promise<boolean> {
    if (this.#reroute !== null) return false;
    this.#reroute = new OwnerReroute(this.dependencies, this.#queryId, this.#owner);
    const other = await this.#reroute.find(mayHaveMoved);
    const upstream = other === null ? null : this.dependencies.upstreams.get(other.owner.proxyTo);
    if (other === null || upstream === null || !this.isAwaited) return false;
    this.discard();
    this.#source = other.source;
    this.#owner = other.owner;
    this.sendTo(upstream);
    return true;
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { names, handshakes, places, settings } = this.dependencies;
    const { explainHeader } = settings();
    const isPage = places !== null && this.proxied.pathKind === 'ui';
    if (handshakes === null && !explainHeader && !isPage) return null;
    const { cluster } = this.#owner;
    const lines = handshakes === null ? [] : [...handshakes.linesOfLogin(headers, cluster)];
    if (isPage) {
      const { status } = this;
      lines.push(...places.linesFor(this.proxied, { cluster: this.clusterIdentity(), status, ofQuery: true }));
    }
    if (explainHeader) lines.push(...explainLine(names, null, cluster, false));
    return lines;
  }

  protected override onEnd(end: ExchangeEnd): void {
    this.proxied.trace?.note({ 'engine_gateway.query_id': this.#queryId });
    super.onEnd(end);
    if (end === 'client_gone') this.#cancelAbandoned();
  }

  /** The client that polled a query is gone: with it the query, where that is wanted. */
  #cancelAbandoned(): void {
    const { upstream } = this;
    const { method, statementPath } = this.proxied;
    if (upstream === null || !statementPath || method !== 'GET') return;
    if (!this.dependencies.settings().cancelQueryOnDisconnect) return;
    cancelQuery(this.dependencies, this.#queryId, upstream, this.outgoingTo(upstream));
  }
}
