import { explainNoCluster } from '../../routing/clusterChoice.ts';
import type { ClusterChooser } from '../../routing/clusterChooser.ts';
import { backTo, type GroupDecision } from '../../routing/groupDecision.ts';
import type { RouterChain } from '../../routing/routers/routerChain.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { Analysis, RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { OtherDependencies } from '../exchanges/exchangeDependencies.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import { OtherExchange, type OtherRoute } from '../exchanges/otherExchange.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { BrowserPlaces } from '../pages/browserPlace.ts';
import type { Handshake, HandshakeCookies } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import type { EnginePages } from './enginePages.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/** What other requests are sent on with. */
export interface OtherRequestsDependencies {
  readonly steps: RequestSteps;
  readonly table: { readonly current: RoutingTable };
  readonly settings: () => Pick<DataPlaneSettings, 'defaultRoutingGroup'>;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  /** Keeps browsers on one cluster's pages; null where they are not. */
  readonly places: BrowserPlaces | null;
  readonly analyzer: RequestAnalyzer;
  readonly clients: RequestHeaders;
  readonly routers: RouterChain;
  readonly chooser: ClusterChooser;
  readonly upstreams: Pick<Upstreams, 'get'>;
  readonly enginePages: EnginePages;
  readonly answers: GatewayAnswers;
  readonly exchange: OtherDependencies;
}

/** Proxied requests that are neither a submission nor about a known query: routed like new ones. */
export class OtherRequests {
  readonly #dependencies: OtherRequestsDependencies;
  readonly #steps: RequestSteps;
  readonly #routers: RouterChain;

  constructor(dependencies: OtherRequestsDependencies) {
    this.#dependencies = dependencies;
    this.#steps = dependencies.steps;
    this.#routers = dependencies.routers;
  }

  /** Decides where a request goes, and sends it there. */
  route(proxied: ProxiedRequest): void {
    const { handshakes, places } = this.#dependencies;
    const handshake = handshakes?.read(proxied.target.path, () => proxied.request.headers.cookie) ?? null;
    const cluster = places?.clusterOf(proxied) ?? handshake?.cluster ?? null;
    if (cluster !== null) {
      const decision = backTo(cluster, 'cookie');
      this.forwardTo(proxied, { decision, cluster, fallback: false, handshake });
      return;
    }
    const table = this.#dependencies.table.current;
    const analysis = this.#routers.needsAnalysis(table)
      ? this.#dependencies.analyzer.analyze(proxied.request, null, false)
      : null;
    this.#steps.settle(proxied, analysis, (properties) => this.#decide(proxied, table, properties, handshake));
  }

  /** Lets the routers decide; the analysis is null where the request was not analysed. */
  #decide(proxied: ProxiedRequest, table: RoutingTable, analysis: Analysis | null, handshake: Handshake | null): void {
    const request = new ProxiedRuleRequest(proxied, analysis, null, this.#dependencies.clients);
    this.#steps.settle(proxied, this.#routers.decide(request, table, proxied.trace), (routed) => {
      if (routed.refusal !== null) this.#dependencies.answers.refuse(proxied, routed.refusal);
      else this.#choose(proxied, routed.decision, handshake);
    });
  }

  /** Picks a cluster of the decision's. */
  #choose(proxied: ProxiedRequest, decision: GroupDecision, handshake: Handshake | null): void {
    const { chooser, table, settings } = this.#dependencies;
    const { defaultRoutingGroup } = settings();
    proxied.trace?.step('choice');
    const choice = chooser.choose(table.current, decision, null, null, handshake?.login ?? null);
    if (choice.cluster === null) {
      this.#dependencies.answers.refuse(proxied, {
        reason: choice.pending ? 'pending' : 'no_cluster',
        message: explainNoCluster(decision, choice.notTaken, defaultRoutingGroup),
        queryId: null,
      });
      return;
    }
    const { cluster, fallback } = choice;
    this.forwardTo(proxied, { decision, cluster, fallback, handshake });
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  forwardTo(proxied: ProxiedRequest, route: OtherRoute): void {
    const { enginePages } = this.#dependencies;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, route.cluster, false);
      return;
    }
    const upstream = this.#dependencies.upstreams.get(route.cluster.proxyTo);
    if (upstream === null) this.#dependencies.answers.failure(proxied, new Error('proxyTo is not an HTTP URL'), false);
    else new OtherExchange(this.#dependencies.exchange, proxied, route).start(upstream);
  }
}
