import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { Exchange, type ExchangeDependencies, type ExchangeEnd } from './exchange.ts';
import { overloaded } from './exchangeRefusals.ts';
import type { AttemptStage } from './exchangeState.ts';
import type { OutgoingRequest } from './outgoingRequests.ts';

/** An attempt that no second one at the same cluster follows. */
export interface FailedForward {
  readonly upstream: Upstream;
  readonly error: Error;
  readonly stage: AttemptStage;
  readonly reason: string;
}

/** Any proxied request but a submission: streamed through to one cluster. */
export abstract class ForwardExchange<Dependencies extends ExchangeDependencies> extends Exchange<Dependencies> {
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;
  #isBodyTooLarge = false;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(dependencies: Dependencies, proxied: ProxiedRequest, decision: GroupDecision | null) {
    super(dependencies, proxied);
    this.outgoing = dependencies.requests.streamed(proxied, decision, () => {
      this.#isBodyTooLarge = true;
    });
  }

  /** Registry name of the cluster that is asked; "" where it is not known. */
  protected abstract clusterName(): string;

  /** The query that the request is about; null for none. */
  protected abstract queryId(): string | null;

  /** The cluster failed, for good: another one takes over, or the client gets a response. */
  protected abstract onClusterFailure(failure: FailedForward): void;

  start(upstream: Upstream): void {
    const { requests, failures } = this.dependencies;
    if (this.outgoing.body === null || requests.mayStream(this.proxied)) this.sendTo(upstream);
    else this.refuse(failures.bodyRefusal('request_memory'));
  }

  /** Sends the request to an upstream, also after another one failed, unless too many wait there. */
  protected sendTo(upstream: Upstream): void {
    if (upstream.overloaded) this.refuse(overloaded(this.clusterName()));
    else this.send(upstream, this.outgoingTo(upstream));
  }

  protected outgoingTo({ proxyTo }: Upstream): OutgoingRequest {
    const { proxied } = this;
    const { requests } = this.dependencies;
    return requests.to({ name: this.clusterName(), proxyTo }, this.outgoing, proxied, false);
  }

  protected giveUp({ error, stage }: FailedForward): void {
    this.dependencies.answers.failure(this.proxied, error, stage === 'answering');
  }

  protected override onFailure(error: Error, stage: AttemptStage): void {
    const { upstream } = this;
    if (upstream === null) return;
    const { proxyTo } = upstream;
    const isBodyTooLarge = this.#isBodyTooLarge;
    const failure = { cluster: this.clusterName(), proxyTo, queryId: this.queryId(), error, stage, isBodyTooLarge };
    const result = this.dependencies.failures.note(this.proxied, failure);
    if (typeof result !== 'string') this.refuse(result);
    else if (this.#mayRepeat(error, stage)) {
      this.#repeats++;
      this.send(upstream, this.outgoingTo(upstream));
    } else this.onClusterFailure({ upstream, error, stage, reason: result });
  }

  /**
   * True if the same cluster gets the request again, once. An idle connection may be closed just as the request is
   * written; these methods may be repeated (RFC 9110 §9.2.2).
   */
  #mayRepeat(error: Error, stage: AttemptStage): boolean {
    if (stage !== 'sent' || this.#repeats > 0 || !isReset(error) || this.outgoing.body !== null) return false;
    const { method } = this.proxied;
    return method === 'GET' || method === 'HEAD' || method === 'DELETE';
  }

  protected override onServerError(reason: string, inARow: number): void {
    this.dependencies.failures.noteServerError(this.clusterName(), this.upstream?.proxyTo ?? '', reason, inARow);
  }

  protected override onEnd(end: ExchangeEnd): void {
    const isCut = end === 'client_gone' || end === 'cut';
    const { status } = this;
    const cluster = status === 0 ? null : this.clusterName();
    this.dependencies.answers.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, status, cluster);
  }
}
