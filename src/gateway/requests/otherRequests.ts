import { backTo, type GroupDecision } from '../../routing/groupDecision.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import { anybody, type OtherDependencies, OtherExchange, type OtherRoute } from '../exchanges/otherExchange.ts';
import type { Handshake, HandshakeCookies } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { EnginePages } from './enginePages.ts';
import type { RequestRouting } from './requestRouting.ts';

export interface OtherRequestsDependencies {
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  readonly routing: Pick<RequestRouting, 'other'>;
  readonly enginePages: EnginePages;
  readonly answers: GatewayAnswers;
  readonly exchange: OtherDependencies;
}

/** Proxied requests that are neither a submission nor about a known query: routed like new ones. */
export class OtherRequests {
  readonly #dependencies: OtherRequestsDependencies;

  constructor(dependencies: OtherRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Decides where a request goes, and sends it there. */
  route(proxied: ProxiedRequest): void {
    const { handshakes, routing, answers } = this.#dependencies;
    const handshake = handshakes?.read(proxied.target.path, () => proxied.request.headers.cookie) ?? null;
    const cluster = handshake?.cluster ?? null;
    if (cluster !== null) {
      const decision = backTo(cluster, 'cookie');
      this.forwardTo(proxied, { decision, cluster, fallback: false, steps: null, handshake });
      return;
    }
    routing.other(proxied, (routed) => {
      if (routed.refusal !== null) answers.refuse(proxied, routed.refusal);
      else this.#choose(proxied, routed.decision, handshake);
    });
  }

  #choose(proxied: ProxiedRequest, decision: GroupDecision, handshake: Handshake | null): void {
    const { exchange, answers } = this.#dependencies;
    proxied.trace?.step('choice');
    const target = exchange.targets.choose(decision, anybody(proxied), null, handshake?.login ?? null);
    if (target.cluster === null) answers.refuse(proxied, target.refusal);
    else {
      const { cluster, fallback, steps } = target;
      this.forwardTo(proxied, { decision, cluster, fallback, steps, handshake });
    }
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  forwardTo(proxied: ProxiedRequest, route: OtherRoute): void {
    const { enginePages, answers, exchange } = this.#dependencies;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, route.cluster.name);
      return;
    }
    const { upstream } = exchange.targets.only(route.cluster);
    if (upstream === null) answers.failure(proxied, new Error('proxyTo is not an HTTP URL'), false);
    else new OtherExchange(exchange, proxied, route).start(upstream);
  }
}
