import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';
import { hasBody } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import { BodyRelay, type RelayFault } from '../bodies/bodyRelay.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { classify, isHeadTooLarge, isOwnFault, isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
import type { ForwardDependencies } from './exchangeDependencies.ts';
import { answerHeadTooLarge, overloaded } from './exchangeRefusals.ts';
import type { AttemptStage } from './exchangeState.ts';

/** An attempt that no second one at the same cluster follows. */
export interface FailedForward {
  readonly upstream: Upstream;
  readonly error: Error;
  readonly stage: AttemptStage;
  /** What went wrong, in words. */
  readonly reason: string;
}

/** Any proxied request but a submission: streamed through to one cluster. */
export abstract class ForwardExchange<Dependencies extends ForwardDependencies> extends Exchange {
  protected readonly dependencies: Dependencies;
  protected readonly proxied: ProxiedRequest;
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;
  #bodyFault: RelayFault | null = null;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(dependencies: Dependencies, proxied: ProxiedRequest, decision: GroupDecision | null) {
    const settings = dependencies.settings();
    super(proxied.request, proxied.response, {
      stallTimeout: settings.clientStallTimeout,
      judgesCluster: proxied.statementPath,
      answerHeaders: dependencies.answerHeaders,
    });
    this.dependencies = dependencies;
    this.proxied = proxied;
    const { request, method } = proxied;
    this.outgoing = {
      method,
      target: proxied.rawTarget,
      headers: dependencies.clusterHeaders.forAny(request, false, decision === null ? null : setHeadersOf(decision)),
      body: hasBody(request)
        ? new BodyRelay(request, null, settings.maxBodySize, dependencies.bodies, (fault) => {
            this.#bodyFault = fault;
          })
        : null,
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** Registry name of the cluster that is asked; "" where it is not known. */
  protected abstract clusterName(): string;

  protected abstract override clusterIdentity(): ClusterIdentity;

  /** The query that the request is about; null for none. */
  protected abstract queryId(): string | null;

  /** The cluster failed, for good: another one takes over, or the client is answered. */
  protected abstract clusterFailed(failure: FailedForward): void;

  /** Starts toward an upstream. */
  start(upstream: Upstream): void {
    if (this.outgoing.body !== null && !this.dependencies.bodies.relay(this.request))
      this.#refuseBody('request_memory');
    else this.sendTo(upstream);
  }

  /** Sends the request to an upstream, also after another one failed, unless too many wait there. */
  protected sendTo(upstream: Upstream): void {
    if (upstream.overloaded) this.refuse(overloaded(this.clusterName()));
    else this.send(upstream, this.outgoingTo(upstream));
  }

  protected outgoingTo({ proxyTo }: Upstream): OutgoingRequest {
    const { trace, statementPath: answersUrls, pathKind, target } = this.proxied;
    const { clusterHeaders } = this.dependencies;
    if (!clusterHeaders.differ({ answersUrls, trace })) return this.outgoing;
    const isPage = pathKind === 'ui' || target.path.startsWith('/oauth2');
    const identity = this.clusterIdentity();
    const hop = { name: this.clusterName(), proxyTo, identity, isPage, answersUrls, trace };
    return { ...this.outgoing, headers: clusterHeaders.forOne(this.outgoing.headers, hop) };
  }

  protected refuse(refusal: Refusal): void {
    this.dependencies.answers.refuse(this.proxied, refusal);
  }

  /** Answers that the cluster failed. */
  protected giveUp({ error, stage }: FailedForward): void {
    this.dependencies.answers.failure(this.proxied, error, stage === 'answering');
  }

  protected override onFailure(error: Error, stage: AttemptStage): void {
    const { upstream } = this;
    if (upstream === null) return;
    if (this.#bodyFault !== null) {
      this.#refuseBody(this.#bodyFault);
      return;
    }
    const { type, reason } = classify(error, stage !== 'connecting');
    const cluster = this.clusterName();
    this.dependencies.metrics.clusterError(cluster, type);
    this.proxied.trace?.noteFailure(reason);
    this.dependencies.logger.debug({ cluster, proxyTo: upstream.proxyTo, err: error }, 'cluster did not answer');
    if (isHeadTooLarge(error)) {
      this.refuse(answerHeadTooLarge(cluster, this.queryId()));
      return;
    }
    if (stage === 'connecting' && !isOwnFault(error)) {
      this.dependencies.reports.connectionFailed(cluster, upstream.proxyTo, reason);
    }
    if (this.#mayRepeat(error, stage)) {
      this.#repeats++;
      this.send(upstream, this.outgoingTo(upstream));
    } else this.clusterFailed({ upstream, error, stage, reason });
  }

  /**
   * Whether the same cluster gets the request again, once. An idle connection may be closed just as the request is written;
   * these methods may be repeated (RFC 9110 §9.2.2).
   */
  #mayRepeat(error: Error, stage: AttemptStage): boolean {
    if (stage !== 'sent' || this.#repeats > 0 || !isReset(error) || this.outgoing.body !== null) return false;
    const { method } = this.proxied;
    return method === 'GET' || method === 'HEAD' || method === 'DELETE';
  }

  #refuseBody(fault: RelayFault | 'request_memory'): void {
    const { bodies, settings } = this.dependencies;
    this.refuse(bodyRefusal(fault, bodies, settings().maxBodySize));
  }

  protected override onServerError(reason: string, inARow: number): void {
    this.dependencies.reports.serverFailed(this.clusterName(), this.upstream?.proxyTo ?? '', reason, inARow);
  }

  protected override onEnd(end: ExchangeEnd): void {
    const isCut = end === 'client_gone' || end === 'cut';
    this.dependencies.answers.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, this.status);
  }
}
