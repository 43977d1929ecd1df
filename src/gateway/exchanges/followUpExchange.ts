import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { QueryOwner } from '../ownership/queryOwner.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { AnsweringCluster } from './addedLines.ts';
import type { AnswerWatch } from './answerWatch.ts';
import type { ExchangeDependencies, ExchangeEnd } from './exchange.ts';
import { ownerGone } from './exchangeRefusals.ts';
import { type FailedForward, ForwardExchange } from './forwardExchange.ts';
import type { OwnedQueries } from './ownedQueries.ts';

export interface FollowUpDependencies extends ExchangeDependencies {
  readonly queries: OwnedQueries;
}

export interface OwnedQuery {
  readonly queryId: string;
  readonly owner: QueryOwner;
}

/** A request about a query: it goes to the owner, and to another one where there is one that the first does not know of. */
export class FollowUpExchange extends ForwardExchange<FollowUpDependencies> {
  readonly #queryId: string;
  #owner: QueryOwner;
  /** Source of the owner: the step that sent the request here, or `#rerouted`. */
  #source: 'request' | 'database' | 'moved' = 'request';
  #hasSearched = false;
  #watch: AnswerWatch | null = null;
  /** The transaction that the response begins is being stored. */
  #beginning: Promise<void> | null = null;

  constructor(dependencies: FollowUpDependencies, proxied: ProxiedRequest, { queryId, owner }: OwnedQuery) {
    super(dependencies, proxied, null);
    this.#queryId = queryId;
    this.#owner = owner;
  }

  protected override clusterName(): string {
    return this.#owner.cluster;
  }

  protected override answering(): AnsweringCluster {
    const cluster = this.dependencies.queries.clusterOf(this.#owner);
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
    if (status >= 200) {
      this.#watch = this.dependencies.queries.watch(this.proxied, this.#queryId, this.#owner);
      this.#watch?.begin(status, headers);
      const isMoved = this.#source === 'moved' && status === 200 && this.proxied.statementPath;
      if (isMoved) this.dependencies.queries.noteMoved(this.#queryId, this.#owner);
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
      this.#beginning = this.dependencies.queries.noteAnswer(this.#queryId, headers, this.#owner);
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

  /** The owner does not know the query, and no one else has it. */
  #answerUnknown(): void {
    if (!this.isAwaited) return;
    if (this.proxied.statementPath) this.dependencies.queries.noteLost(this.#queryId, this.#owner);
    const why = this.dependencies.queries.lossReason(this.proxied, this.#queryId, this.status);
    if (why === null) this.release();
    else {
      this.discard();
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, why));
    }
  }

  protected override onClusterFailure(failure: FailedForward): void {
    const { upstream, stage } = failure;
    const isGone = stage === 'connecting' && this.dependencies.queries.isGone(upstream);
    if (stage !== 'connecting' || this.outgoing.body !== null) this.#answerFailed(failure, isGone);
    else {
      // A cluster that has just begun to reject is given time to come back before it is looked for elsewhere.
      void this.#rerouted(isGone).then((isSent) => {
        if (!isSent && this.isAwaited) this.#answerFailed(failure, isGone);
      });
    }
  }

  /** The owner failed, and no one else has the query. */
  #answerFailed(failure: FailedForward, isGone: boolean): void {
    if (isGone && this.proxied.statementPath) {
      this.dependencies.queries.noteLost(this.#queryId, this.#owner);
      this.refuse(ownerGone(this.#queryId, this.#owner.cluster, failure.reason));
    } else this.giveUp(failure);
  }

  /**
   * Sends the request to another owner.
   * @param mayHaveMoved see `OwnedQueries.findOther`
   * @returns false where it was not sent: the caller responds
   */
  async #rerouted(mayHaveMoved: boolean): Promise<boolean> {
    if (this.#hasSearched) return false;
    this.#hasSearched = true;
    const other = await this.dependencies.queries.findOther(this.#queryId, this.#owner, mayHaveMoved);
    if (other === null || !this.isAwaited) return false;
    this.discard();
    this.#source = other.source;
    this.#owner = other.owner;
    this.sendTo(other.upstream);
    return true;
  }

  protected override onEnd(end: ExchangeEnd): void {
    this.proxied.trace?.note({ 'engine_gateway.query_id': this.#queryId });
    super.onEnd(end);
    const { upstream } = this;
    const isPoll = this.proxied.statementPath && this.proxied.method === 'GET';
    if (end === 'client_gone' && isPoll && upstream !== null) {
      this.dependencies.queries.abandon(this.#queryId, this.#owner.cluster, upstream, () => this.outgoingTo(upstream));
    }
  }
}
