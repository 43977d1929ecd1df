import { firstHeader } from '../model/http.ts';
import type { ProductNames } from '../model/names.ts';
import { type DecisionTrace, noTrace, type RuleDecision, type RuleRequest } from '../rules/decision.ts';
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
      const decidedBy = 'rule';
      return {
        refusal: null,
        decision: { group: group ?? this.#defaultGroup, cluster, rule, decidedBy, onUnavailable, trace },
      };
    }
    // Rules replace the header, unless they could not be loaded (docs/rules.md#when-something-is-wrong).
    return useHeader ? this.#byHeader(request, trace) : byGroup('default', this.#defaultGroup, trace);
  }

  #byService(request: RuleRequest, external: ExternalResponse, trace: DecisionTrace): Routed {
    if (external.outcome === 'answered') {
      return byGroup('external', external.routingGroup, trace, external);
    }
    if (external.outcome !== 'errors') return this.#byHeader(request, trace, external);
    const { errors } = external;
    if (errors.length === 0 || !this.#propagateErrors) return byGroup('default', this.#defaultGroup, trace, external);
    const message = `The external rules service refused the request: ${errors.join('; ')}`;
    return {
      refusal: { reason: 'external_errors', message, queryId: null, list: errors },
      rule: null,
      undecided: { decidedBy: 'external', trace, external },
      otherwise: () => byGroup('default', this.#defaultGroup, trace, external),
    };
  }

  #byHeader({ headers }: RuleRequest, trace: DecisionTrace, external?: ExternalResponse): Routed {
    const group = firstHeader(headers, this.#headerKey);
    if (group === undefined || group === '') return byGroup('default', this.#defaultGroup, trace, external);
    return byGroup('header', group, trace, external);
  }
}

/** A decision for any cluster of a group. */
function byGroup(decidedBy: RouterName, group: string, trace: DecisionTrace, external?: ExternalResponse): Routed {
  const decision = { group, cluster: null, rule: null, decidedBy, onUnavailable: 'fallback', trace } as const;
  return { refusal: null, decision: external === undefined ? decision : { ...decision, external } };
}

/**
 * Deciders of the routing group by name, in order (docs/routing.md#which-cluster-takes-a-query). Decisions, the history and
 * the API name the one that decided.
 */
export const routerNames = ['rule', 'external', 'header', 'default'] as const;

export type RouterName = (typeof routerNames)[number];

export interface GroupDecision {
  readonly group: string;
  /** Registry name of the cluster that a rule chose; null for any of the group. */
  readonly cluster: string | null;
  /** Rule that set group or cluster, or null. */
  readonly rule: string | null;
  /**
   * The router that chose the group. `prefix` and `cookie` only if a cluster's own URL or a handshake cookie identifies
   * it, `transaction` if the statement belongs to a transaction of a cluster.
   */
  readonly decidedBy: RouterName | 'prefix' | 'cookie' | 'transaction';
  readonly onUnavailable: 'fallback' | 'reject';
  readonly trace: DecisionTrace;
  /** Result of the external rules service, if one is configured. */
  readonly external?: ExternalResponse;
}

/** Result of a call of the external rules service (docs/rules.md#an-external-rules-service). */
export type ExternalResponse =
  | {
      readonly outcome: 'answered';
      readonly routingGroup: string;
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly outcome: 'errors';
      readonly errors: readonly string[];
      readonly headers: Readonly<Record<string, string>>;
    }
  /** `skipped`: no call, because it failed before. */
  | { readonly outcome: 'failed' | 'skipped'; readonly reason: string };

/**
 * The decision of a request that belongs to one cluster by its URL or a cookie. A cluster by URL cannot be replaced; a
 * cluster by cookie may be replaced by another of its group, where the handshake starts again.
 */
export function backTo(
  { name, routingGroup }: { readonly name: string; readonly routingGroup: string },
  decidedBy: 'prefix' | 'cookie',
): GroupDecision {
  const only = decidedBy === 'prefix';
  return {
    group: routingGroup,
    cluster: only ? name : null,
    rule: null,
    decidedBy,
    onUnavailable: only ? 'reject' : 'fallback',
    trace: noTrace,
  };
}

/**
 * The decision of a statement of a transaction: the cluster that began it overrides all other decisions. Results of
 * rules and the external rules service stay in the trace.
 */
export function ofTransaction(
  decided: GroupDecision,
  { name, routingGroup }: { readonly name: string; readonly routingGroup: string },
): GroupDecision {
  const group = routingGroup === '' ? decided.group : routingGroup;
  return { ...decided, group, cluster: name, rule: null, decidedBy: 'transaction', onUnavailable: 'reject' };
}
