import type { ProductNames } from '../model/names.ts';
import { firstHeader } from '../model/rawHeaders.ts';
import { type DecisionTrace, noTrace, type RuleDecision, type RuleRequest } from '../rules/decision.ts';
import type { ExternalResponse, GroupDecision, RouterName } from './groupDecision.ts';
import type { Refusal } from './refusal.ts';
import type { RoutingTable } from './routingTable.ts';

/** Steps of the decision that take time, for traces of requests. */
export type RouterStep = 'rules' | 'rules service';

export interface RoutedDecision extends GroupDecision {
  readonly decidedBy: RouterName;
}

/** A rejected request: no group was decided. */
export interface UndecidedRouting {
  readonly decidedBy: RouterName;
  readonly trace: DecisionTrace;
  readonly external?: ExternalResponse;
}

export type Routed =
  | { readonly refusal: null; readonly decision: RoutedDecision }
  | {
      readonly refusal: Refusal;
      /** Rule that rejects, or null. */
      readonly rule: string | null;
      readonly undecided: UndecidedRouting;
      /** The routing without the rejection, for explanations. */
      readonly otherwise: () => Routed | Promise<Routed>;
    };

/** The external rules service (docs/rules.md#an-external-rules-service). */
export interface ExternalRules {
  readonly needsAnalysis: boolean;
  /** Requests a group. Never rejects; takes at most the request timeout. */
  request(request: RuleRequest): Promise<ExternalResponse>;
}

interface StepNotes {
  step(name: RouterStep): void;
}

type Choice = Pick<GroupDecision, 'group' | 'cluster' | 'rule' | 'onUnavailable'>;

/**
 * Decides routing groups: by the rules, the external rules service, the header, then the default group
 * (docs/routing.md#which-cluster-takes-a-query).
 */
export class GroupRouter {
  readonly #headerKey: string;
  readonly #defaultGroup: string;
  readonly #external: ExternalRules | null;
  readonly #propagateErrors: boolean;

  /**
   * @param defaultGroup `routing.defaultRoutingGroup`
   * @param external null: rules and header decide. With a service, rules only reject
   * @param propagateErrors true if errors of the service are the client's response
   */
  constructor(
    names: ProductNames,
    defaultGroup: string,
    external: ExternalRules | null = null,
    propagateErrors = false,
  ) {
    this.#headerKey = names.headerKey('Routing-Group');
    this.#defaultGroup = defaultGroup;
    this.#external = external;
    this.#propagateErrors = propagateErrors;
  }

  /** True if user and query of requests must be analyzed for the decision. */
  needsAnalysis({ rules }: RoutingTable): boolean {
    return rules?.needsAnalysis === true || this.#external?.needsAnalysis === true;
  }

  /** Decides about a request: synchronously, unless the rules service is called. */
  decide(request: RuleRequest, { rules }: RoutingTable, notes: StepNotes | null = null): Routed | Promise<Routed> {
    if (rules === null) return this.#route(request, null, notes);
    notes?.step('rules');
    const decision = rules.decide(request);
    const { denied, rejected, trace } = decision;
    const stopped = denied ?? rejected;
    if (stopped === null) return this.#route(request, decision, notes);
    const reason = denied === null ? 'rule_failed' : 'denied';
    return {
      refusal: { reason, message: stopped.message, queryId: null },
      rule: stopped.rule,
      undecided: { decidedBy: 'rule', trace },
      otherwise: () => this.#route(request, decision, notes),
    };
  }

  /** @param decision of the rules; null without rules */
  #route(request: RuleRequest, decision: RuleDecision | null, notes: StepNotes | null): Routed | Promise<Routed> {
    const trace = decision?.trace ?? noTrace;
    if (this.#external !== null) {
      notes?.step('rules service');
      return this.#external.request(request).then((response) => this.#byService(request, response, trace));
    }
    if (decision === null) return this.#byHeader(request, trace);
    const { routingGroup, cluster, rule, onUnavailable, useHeader } = decision;
    const group = routingGroup === '' ? null : routingGroup;
    if (group !== null || cluster !== null) {
      return routed('rule', { group: group ?? this.#defaultGroup, cluster, rule, onUnavailable }, trace);
    }
    // Rules replace the header, unless they could not be loaded (docs/rules.md#when-something-is-wrong).
    return useHeader ? this.#byHeader(request, trace) : this.#byDefault(trace);
  }

  #byService(request: RuleRequest, external: ExternalResponse, trace: DecisionTrace): Routed {
    if (external.outcome === 'answered') return routed('external', only(external.routingGroup), trace, external);
    if (external.outcome !== 'errors') return this.#byHeader(request, trace, external);
    const { errors } = external;
    if (errors.length === 0 || !this.#propagateErrors) return this.#byDefault(trace, external);
    const message = `The external rules service refused the request: ${errors.join('; ')}`;
    return {
      refusal: { reason: 'external_errors', message, queryId: null, list: errors },
      rule: null,
      undecided: { decidedBy: 'external', trace, external },
      otherwise: () => this.#byDefault(trace, external),
    };
  }

  #byHeader({ headers }: RuleRequest, trace: DecisionTrace, external?: ExternalResponse): Routed {
    const group = firstHeader(headers, this.#headerKey);
    if (group === undefined || group === '') return this.#byDefault(trace, external);
    return routed('header', only(group), trace, external);
  }

  #byDefault(trace: DecisionTrace, external?: ExternalResponse): Routed {
    return routed('default', only(this.#defaultGroup), trace, external);
  }
}

function only(group: string): Choice {
  return { group, cluster: null, rule: null, onUnavailable: 'fallback' };
}

function routed(decidedBy: RouterName, choice: Choice, trace: DecisionTrace, external?: ExternalResponse): Routed {
  const decision = { ...choice, decidedBy, trace };
  return { refusal: null, decision: external === undefined ? decision : { ...decision, external } };
}
