import { explainNoCluster } from '../../routing/clusterChoice.ts';
import { backTo, type GroupDecision } from '../../routing/groupDecision.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { ForwardExchange, type OtherReason } from '../forwardExchange.ts';
import type { Handshake } from '../handshakeCookies.ts';
import type { RequestSteps } from './requestSteps.ts';
import type { RoutingGroups } from './routingGroups.ts';

/** Proxied requests that are neither a submission nor about a known query: routed like new ones. */
export class OtherRequests {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #groups: RoutingGroups;

  constructor(context: DataPlaneContext, steps: RequestSteps, groups: RoutingGroups) {
    this.#context = context;
    this.#steps = steps;
    this.#groups = groups;
  }

  /** Decides where a request goes, and sends it there. */
  route(proxied: ProxiedRequest): void {
    const { handshakes } = this.#context;
    const handshake = handshakes?.read(proxied.target.path, () => proxied.request.headers.cookie) ?? null;
    if (handshake !== null && handshake.cluster !== null) {
      const { cluster } = handshake;
      const decision = backTo(cluster, 'cookie');
      this.forwardTo(proxied, { queryId: null, decision, cluster, fallback: false, handshake });
      return;
    }
    const groups = this.#groups;
    const table = this.#context.table.current;
    const { service } = groups;
    if (table.rules === null && service === null) {
      this.#forward(proxied, table, groups.groupOf(proxied, null), handshake);
      return;
    }
    const analyzed = groups.needsAnalysis(table);
    const needed = analyzed
      ? this.#context.analyzer.analyze(proxied.request, null, false)
      : { user: { user: null, userInfo: null }, queryProperties: null };
    this.#steps.settle(proxied, needed, (analysis) => {
      const ruled = groups.askRules(proxied, table, analysis, null, analyzed);
      if (groups.refuseRejected(proxied, ruled)) return;
      if (service === null) this.#forward(proxied, table, groups.groupOf(proxied, ruled), handshake);
      else {
        const described = groups.ruleRequest(proxied, analysis, null, analyzed);
        groups.askService(proxied, service, ruled, described, (decision) =>
          this.#forward(proxied, this.#context.table.current, decision, handshake),
        );
      }
    });
  }

  /** Sends a request to the cluster that was decided on, or its client there. */
  forwardTo(proxied: ProxiedRequest, reason: OtherReason): void {
    const { enginePages } = this.#context;
    if (enginePages.replaces(proxied)) {
      enginePages.redirect(proxied, reason.cluster.name);
      return;
    }
    const upstream = this.#context.upstreams.get(reason.cluster.proxyTo);
    if (upstream === null) this.#context.answerFailure(proxied, new Error('proxyTo is no HTTP URL'), false);
    else new ForwardExchange(this.#context, proxied, reason).start(upstream);
  }

  #forward(proxied: ProxiedRequest, table: RoutingTable, decision: GroupDecision, handshake: Handshake | null): void {
    const { defaultRoutingGroup } = this.#context.settings();
    proxied.trace?.step('choice');
    const choice = this.#context.chooser.choose(table, decision, null, null, handshake?.login ?? null);
    if (choice.cluster === null) {
      this.#context.refuse(proxied, {
        reason: choice.pending ? 'pending' : 'no_cluster',
        message: explainNoCluster(decision, choice.notTaken, defaultRoutingGroup),
        queryId: null,
      });
      return;
    }
    const { cluster, fallback } = choice;
    this.forwardTo(proxied, { queryId: null, decision, cluster, fallback, handshake });
  }
}
