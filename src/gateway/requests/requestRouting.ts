import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { GroupRouter, Routed, UndecidedRouting } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { userRefusal } from '../../routing/userRefusal.ts';
import type { ReadCondition } from '../../rules/decision.ts';
import { mayKillQuery } from '../analysis/killQuery.ts';
import type { Analysis, RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import { conditionsOf } from '../exchanges/refusingRule.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { noteUser } from './mappedRequests.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Result for a submission: a decision, or the rejection of the routers or of the user mapping. */
export type RoutedSubmission = Extract<Routed, { readonly refusal: null }> | RefusedRouting;

/** A submission that was rejected before its group was decided. */
interface RefusedRouting {
  readonly refusal: Refusal;
  /** Rule that rejects; null if it is no rule. */
  readonly rule: string | null;
  /** Null: no router was asked, as the user mapping rejected it. */
  readonly undecided: UndecidedRouting | null;
  /** The condition of that rule with what it read; empty for none. */
  readonly conditions: () => readonly ReadCondition[];
}

type TakeSubmission = (routed: RoutedSubmission, analysis: Analysis) => void;

export interface RequestRoutingDependencies {
  readonly names: ProductNames;
  readonly steps: Pick<RequestSteps, 'settle'>;
  readonly table: { readonly current: RoutingTable };
  readonly analyzer: RequestAnalyzer;
  readonly clients: RequestHeaders;
  readonly routers: GroupRouter;
  readonly clock: Pick<Clock, 'monotonic'>;
}

/**
 * Finds out what routers need to know of a request, and lets them decide; immediately where nothing has to be waited
 * for.
 */
export class RequestRouting {
  readonly #dependencies: RequestRoutingDependencies;
  readonly #preparedHeader: string;

  constructor(dependencies: RequestRoutingDependencies) {
    this.#dependencies = dependencies;
    this.#preparedHeader = dependencies.names.headerKey('Prepared-Statement');
  }

  /**
   * Routes a submission.
   * @param next gets the decision; the query properties are null if the statement did not have to be analyzed
   */
  submission(proxied: ProxiedRequest, body: BodyStart, next: TakeSubmission): void {
    const { analyzer, table, steps, clock } = this.#dependencies;
    const { current } = table;
    proxied.trace?.step('analysis');
    const whole = body.complete ? body : null;
    if (this.#needsAnalysis(proxied, whole, current)) {
      steps.settle(proxied, analyzer.analyze(proxied.request, whole, true), (analysis) =>
        this.#admit(proxied, analysis, next, () =>
          this.#decide(proxied, current, analysis, body, (routed, request) => {
            proxied.decidedAt = clock.monotonic();
            next(this.#withCondition(routed, request, current), analysis);
          }),
        ),
      );
    } else {
      steps.settle(proxied, analyzer.user(proxied.request), (user) => {
        const analysis = { user, queryProperties: null };
        this.#admit(proxied, analysis, next, () =>
          this.#decide(proxied, current, null, body, (routed, request) => {
            proxied.decidedAt = clock.monotonic();
            next(this.#withCondition(routed, request, current), analysis);
          }),
        );
      });
    }
  }

  /** Goes on with a submission, unless the user mapping rejects its user. */
  #admit(proxied: ProxiedRequest, analysis: Analysis, refuse: TakeSubmission, goOn: () => void): void {
    proxied.analysedAt = this.#dependencies.clock.monotonic();
    const refusal = userRefusal(analysis.user);
    if (refusal !== null) {
      refuse({ refusal, rule: null, undecided: null, conditions: () => [] }, analysis);
      return;
    }
    noteUser(proxied, analysis.user);
    goOn();
  }

  /** Routes any other request that is about no query: its body is not read before. */
  other(proxied: ProxiedRequest, next: (routed: Routed) => void): void {
    const { analyzer, table, routers, steps } = this.#dependencies;
    const { current } = table;
    const analysis = routers.needsAnalysis(current) ? analyzer.analyze(proxied.request, null, false) : null;
    steps.settle(proxied, analysis, (properties) => this.#decide(proxied, current, properties, null, next));
  }

  /** Rules may need the analysis, and calls of kill_query are recognized by it. */
  #needsAnalysis({ request }: ProxiedRequest, whole: BodyStart | null, table: RoutingTable): boolean {
    if (this.#dependencies.routers.needsAnalysis(table)) return true;
    return whole !== null && mayKillQuery(whole.text, request, this.#preparedHeader);
  }

  #withCondition(routed: Routed, request: ProxiedRuleRequest, { rules }: RoutingTable): RoutedSubmission {
    if (routed.refusal === null) return routed;
    const { refusal, rule, undecided } = routed;
    const { names } = this.#dependencies;
    return { refusal, rule, undecided, conditions: () => conditionsOf(rule, rules, request, names) };
  }

  /** @param analysis null if the request was not analyzed */
  #decide(
    proxied: ProxiedRequest,
    table: RoutingTable,
    analysis: Analysis | null,
    body: BodyStart | null,
    next: (routed: Routed, request: ProxiedRuleRequest) => void,
  ): void {
    const { clients, routers, steps } = this.#dependencies;
    const request = new ProxiedRuleRequest(proxied, analysis, body, clients);
    steps.settle(proxied, routers.decide(request, table, proxied.trace), (routed) => next(routed, request));
  }
}
