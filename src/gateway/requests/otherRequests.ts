import { explainNoCluster } from '../../routing/clusterChoice.ts';
import { backTo, type GroupDecision } from '../../routing/groupDecision.ts';
import type { RouterChain } from '../../routing/routers/routerChain.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { OtherExchange, type OtherRoute } from '../exchanges/otherExchange.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Proxied requests that are neither a submission nor about a known query: routed like new ones. */
export class OtherRequests {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #routers: RouterChain;

  constructor(context: DataPlaneContext, steps: RequestSteps, routers: RouterChain) {
    this.#context = context;
    this.#steps = steps;
    this.#routers = routers;
  }

  /** Decides where a request goes, and sends it there. */
  route(proxied: ProxiedRequest): void {
    const { handshakes, places } = this.#context;
    const handshake = handshakes?.read(proxied.target.path, () => proxied.request.headers.cookie) ?? null;
    const cluster = places?.clusterOf(proxied) ?? handshake?.cluster ?? null;
    if (cluster !== null) {
      const decision = backTo(cluster, 'cookie');
      this.forwardTo(proxied, { decision, cluster, fallback: false, handshake });
      return;
    }
    const table = this.#context.table.current;
    const analysis = this.#routers.needsAnalysis(table)
      ? this.#context.analyzer.analyze(proxied.request, null, false)
      : null;
    this.#steps.settle(proxied, analysis, (told) => this.#decide(proxied, table, told, handshake));
  }

  /** Lets the routers decide; `told` is null where the request was not analysed. */
  #decide(proxied: ProxiedRequest, table: RoutingTable, told: Analysis | null, handshake: Handshake | null): void {
    const request = new ProxiedRuleRequest(proxied, told, null, this.#context.headers);
    this.#steps.settle(proxied, this.#routers.decide(request, table, proxied.trace), (routed) => {
      if (routed.refusal !== null) this.#context.refuse(proxied, routed.refusal);
      else this.#forward(proxied, routed.decision, handshake);
    });
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  forwardTo(proxied: ProxiedRequest, route: OtherRoute): void {
    const { enginePages } = this.#context;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, route.cluster, false);
      return;
    }
    const upstream = this.#context.upstreams.get(route.cluster.proxyTo);
    if (upstream === null) this.#context.answerFailure(proxied, new Error('proxyTo is not an HTTP URL'), false);
    else new OtherExchange(this.#context, proxied, route).start(upstream);
  }

  #forward(proxied: ProxiedRequest, decision: GroupDecision, handshake: Handshake | null): void {
    const { chooser, table, settings } = this.#context;
    const { defaultRoutingGroup } = settings();
    proxied.trace?.step('choice');
    const choice = chooser.choose(table.current, decision, null, null, handshake?.login ?? null);
    if (choice.cluster === null) {
      this.#context.refuse(proxied, {
        reason: choice.pending ? 'pending' : 'no_cluster',
        message: explainNoCluster(decision, choice.notTaken, defaultRoutingGroup),
        queryId: null,
      });
      return;
    }
    const { cluster, fallback } = choice;
    this.forwardTo(proxied, { decision, cluster, fallback, handshake });
  }
}
