import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';
import { hasBody } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import { BodyRelay, type RelayFault } from '../bodies/bodyRelay.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { tellingPrefix } from '../ownership/clusterKeys.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import { classify, isHeadTooLarge, isOwnFault, isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
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
export abstract class ForwardExchange extends Exchange {
  protected readonly context: DataPlaneContext;
  protected readonly proxied: ProxiedRequest;
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;
  #bodyFault: RelayFault | null = null;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(context: DataPlaneContext, proxied: ProxiedRequest, decision: GroupDecision | null) {
    const settings = context.settings();
    super(proxied.request, proxied.response, {
      stallTimeout: settings.clientStallTimeout,
      judgesCluster: proxied.statementPath,
      answerHeaders: context.answerHeaders,
    });
    this.context = context;
    this.proxied = proxied;
    const { request, method } = proxied;
    this.outgoing = {
      method,
      target: proxied.rawTarget,
      headers: context.headers.forCluster(request, false, decision === null ? null : setHeadersOf(decision)),
      body: hasBody(request)
        ? new BodyRelay(request, null, settings.maxBodySize, context.bodies, (fault) => {
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
    if (this.outgoing.body !== null && !this.context.bodies.relay(this.request)) this.#refuseBody('request_memory');
    else this.sendTo(upstream);
  }

  /** Sends the request to an upstream, also after another one failed, unless too many wait there. */
  protected sendTo(upstream: Upstream): void {
    if (upstream.overloaded) this.refuse(overloaded(this.clusterName()));
    else this.send(upstream, this.outgoingTo(upstream));
  }

  /** With the cluster's own cookies alone. Answers of statement paths hold URLs: only there the cluster gets its prefix. */
  protected outgoingTo(upstream: Upstream): OutgoingRequest {
    const { trace, statementPath, pathKind, target } = this.proxied;
    const { engineCookies, prefixes } = this.context;
    if (trace === null && engineCookies === null && (!statementPath || prefixes === null)) return this.outgoing;
    const cluster = this.clusterName();
    const { headers } = this.outgoing;
    const isPage = pathKind === 'ui' || target.path.startsWith('/oauth2');
    const ofCluster = engineCookies?.forCluster(headers, this.clusterIdentity(), isPage) ?? headers;
    const prefixed = statementPath ? tellingPrefix(this.context, ofCluster, cluster) : ofCluster;
    const lines = trace === null ? prefixed : [...prefixed, ...trace.toCluster(cluster, upstream.baseUrl)];
    return { ...this.outgoing, headers: lines };
  }

  protected refuse(refusal: Refusal): void {
    this.context.refuse(this.proxied, refusal);
  }

  /** Answers that the cluster failed. */
  protected giveUp({ error, stage }: FailedForward): void {
    this.context.answerFailure(this.proxied, error, stage === 'answering');
  }

  protected override failed(error: Error, stage: AttemptStage): void {
    const { upstream } = this;
    if (upstream === null) return;
    if (this.#bodyFault !== null) {
      this.#refuseBody(this.#bodyFault);
      return;
    }
    const { type, reason } = classify(error, stage !== 'connecting');
    const cluster = this.clusterName();
    this.context.metrics.clusterError(cluster, type);
    this.proxied.trace?.failed(reason);
    this.context.logger.debug({ cluster, baseUrl: upstream.baseUrl, err: error }, 'cluster did not answer');
    if (isHeadTooLarge(error)) {
      this.refuse(answerHeadTooLarge(cluster, this.queryId()));
      return;
    }
    if (stage === 'connecting' && !isOwnFault(error)) {
      this.context.connectionFailed(cluster, upstream.baseUrl, reason);
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
    const { bodies, settings } = this.context;
    this.refuse(bodyRefusal(fault, bodies, settings().maxBodySize));
  }

  protected override serverFailed(reason: string, inARow: number): void {
    this.context.serverFailed(this.clusterName(), this.upstream?.baseUrl ?? '', reason, inARow);
  }

  protected override finished(end: ExchangeEnd): void {
    const isCut = end === 'client_gone' || end === 'cut';
    this.context.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, this.status);
  }
}
