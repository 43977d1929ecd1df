import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import { toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { PickRequest } from '../../routing/strategies.ts';
import { hasBody } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { ExchangeParts } from '../dataPlaneComposition.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isOwnFault, isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import type { RespondingCluster } from './addedLines.ts';
import { chooseTarget } from './clusterTargets.ts';
import { type AttemptFailure, Exchange, type ExchangeEnd } from './exchange.ts';
import { overloaded } from './exchangeRefusals.ts';
import { type Destination, type OutgoingRequest, outgoingRequest, relayedBody, requestTo } from './outgoingRequests.ts';

/** Any proxied request but a submission: streamed through to one cluster. */
export abstract class ForwardExchange extends Exchange {
  protected readonly outgoing: OutgoingRequest;
  #repeats = 0;

  /** @param decision how the request was routed; null for a follow-up */
  constructor(parts: ExchangeParts, proxied: ProxiedRequest, decision: GroupDecision | null) {
    super(parts, proxied);
    const onTooLarge = () => {
      this.isBodyTooLarge = true;
    };
    const body = hasBody(proxied.request) ? relayedBody(parts, proxied, null, onTooLarge) : null;
    this.outgoing = outgoingRequest(parts, proxied, decision, body);
  }

  /** The cluster failed, for good: another one takes over, or the client gets a response. */
  protected abstract onClusterFailure(failure: AttemptFailure): void;

  start(upstream: Upstream): void {
    const { bodies, settings } = this.parts;
    const { request, response } = this.proxied;
    if (this.outgoing.body === null || bodies.relay(request, response)) this.sendTo(upstream);
    else this.refuse(bodyRefusal('request_memory', bodies.memory, settings.maxBodySize));
  }

  /** Sends the request to an upstream, also after another one failed, unless too many wait there. */
  protected sendTo(upstream: Upstream): void {
    if (upstream.overloaded) this.refuse(overloaded(this.destination().name));
    else this.send(upstream, this.outgoingNow());
  }

  /** The request as the cluster gets it. */
  protected outgoingNow(): OutgoingRequest {
    return requestTo(this.parts, this.destination(), this.outgoing, this.proxied, false);
  }

  protected giveUp({ error, stage }: AttemptFailure): void {
    this.parts.answers.failure(this.proxied, error, stage === 'answering');
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
    this.parts.answers.noteEnd(this.proxied, isCut ? 0 : this.response.statusCode, status, cluster);
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

export function anybody({ request }: ProxiedRequest): PickRequest {
  return { user: null, headers: request.rawHeaders };
}

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

  protected override answering(): RespondingCluster {
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
    if (target.cluster === null) this.refuse({ ...target.refusal, reason: 'no_cluster' });
    else if (target.upstream === null) {
      const message = `proxyTo of cluster ${target.cluster.name} is not an HTTP URL`;
      this.refuse(toRefusal('no_cluster', message));
    } else {
      const { cluster, fallback, steps } = target;
      this.#route = { decision, cluster, fallback, steps, handshake };
      this.sendTo(target.upstream);
    }
  }
}
