import type { RuleDecision, RuleRequest } from '../../rules/decision.ts';
import type { RoutingTable } from '../routingTable.ts';
import { type GroupAnswer, type NothingAnswer, nothing, type Router, type RouterAnswer } from './router.ts';

export interface RulesRouterOptions {
  /** `routing.defaultRoutingGroup`: the group of requests that a rule pins to a cluster. */
  readonly defaultGroup: string;
  /**
   * Rules reject requests and choose nothing, as an external service does (docs/rules.md#an-external-rules-service).
   */
  readonly refusesOnly: boolean;
}

/**
 * Evaluates the rules. They replace the header: if they set no group, the default group is used, unless they could not
 * be loaded (docs/rules.md#when-something-is-wrong).
 */
export class RulesRouter implements Router {
  readonly name = 'rule';
  readonly step = 'rules';
  readonly #options: RulesRouterOptions;

  constructor(options: RulesRouterOptions) {
    this.#options = options;
  }

  isAsked({ rules }: RoutingTable): boolean {
    return rules !== null;
  }

  needsAnalysis({ rules }: RoutingTable): boolean {
    return rules?.needsAnalysis === true;
  }

  route(request: RuleRequest, { rules }: RoutingTable): RouterAnswer {
    if (rules === null) return nothing;
    const decision = rules.decide(request);
    const answer = this.#answer(decision);
    const { denied, rejected } = decision;
    const stopped = denied ?? rejected;
    if (stopped === null) return answer;
    const refusal = {
      reason: denied === null ? ('rule_failed' as const) : ('denied' as const),
      message: stopped.message,
      queryId: null,
    };
    return { says: 'refusal', refusal, rule: stopped.rule, instead: answer };
  }

  #answer({ routingGroup, cluster, rule, onUnavailable, useHeader, trace }: RuleDecision): GroupAnswer | NothingAnswer {
    const findings = { trace };
    if (this.#options.refusesOnly) return { says: 'nothing', asks: 'next', findings };
    const group = routingGroup === '' ? null : routingGroup;
    if (group === null && cluster === null) return { says: 'nothing', asks: useHeader ? 'next' : 'last', findings };
    const choice = { group: group ?? this.#options.defaultGroup, cluster, rule, onUnavailable };
    return { says: 'group', choice, findings };
  }
}
