import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ExchangeParts } from '../dataPlaneComposition.ts';
import { movedOwner, ownerCluster, type QueryOwner } from '../ownership/queryOwner.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import type { RespondingCluster } from './addedLines.ts';
import type { AttemptFailure, ExchangeEnd } from './exchange.ts';
import { ownerGone } from './exchangeRefusals.ts';
import { ForwardExchange } from './forwardExchange.ts';
import type { Destination } from './outgoingRequests.ts';
import { ResponseWatch } from './responseWatch.ts';

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

  protected override answering(): RespondingCluster {
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
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, why));
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
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, failure.reason));
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
