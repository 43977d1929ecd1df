import { type DecisionTrace, noTrace, type RuleRequest } from '../../rules/decision.ts';
import type { ExternalAnswer, GroupDecision } from '../groupDecision.ts';
import type { Refusal } from '../refusal.ts';
import type { RoutingTable } from '../routingTable.ts';
import type { GroupAnswer, Router, RouterAnswer, RouterFindings } from './router.ts';
import type { RouterName, RouterStep } from './routerNames.ts';

export interface RoutedDecision extends GroupDecision {
  readonly decidedBy: RouterName;
}

/** A request that a router rejected: no group was decided. */
export interface UndecidedRouting {
  /** The router that rejected it. */
  readonly decidedBy: RouterName;
  readonly trace: DecisionTrace;
  readonly external?: ExternalAnswer;
}

export type Routed =
  | { readonly refusal: null; readonly decision: RoutedDecision }
  | {
      readonly refusal: Refusal;
      /** Rule that rejects, or null. */
      readonly rule: string | null;
      readonly undecided: UndecidedRouting;
      /** The routing without the rejection: calls the remaining routers, for explanations. */
      readonly otherwise: () => Routed | Promise<Routed>;
    };

export interface StepNotes {
  step(name: RouterStep): void;
}

/** A router that always chooses a group. */
export interface LastRouter extends Router {
  route(request: RuleRequest, table: RoutingTable): GroupAnswer;
}

interface Question {
  readonly request: RuleRequest;
  readonly table: RoutingTable;
  readonly notes: StepNotes | null;
}

/**
 * Decides routing groups: calls each router in turn until one chooses a group or rejects the request, and collects
 * their additions for the decision's trace (docs/extending.md#a-router).
 */
export class RouterChain {
  readonly #routers: readonly Router[];
  readonly #last: LastRouter;

  constructor(routers: readonly Router[], last: LastRouter) {
    this.#routers = routers;
    this.#last = last;
  }

  needsAnalysis(table: RoutingTable): boolean {
    return this.#routers.some((router) => router.needsAnalysis(table));
  }

  /**
   * Decides about a request: synchronously, unless a router makes a request.
   * @param table the snapshot for all routers
   */
  decide(request: RuleRequest, table: RoutingTable, notes: StepNotes | null = null): Routed | Promise<Routed> {
    return this.#ask(0, { request, table, notes }, null);
  }

  #ask(index: number, question: Question, findings: RouterFindings | null): Routed | Promise<Routed> {
    const router = this.#routers[index];
    if (router === undefined) return this.#leaveToLast(question, findings);
    const { request, table, notes } = question;
    if (!router.isAsked(table)) return this.#ask(index + 1, question, findings);
    if (router.step !== null) notes?.step(router.step);
    const answer = router.route(request, table);
    return answer instanceof Promise
      ? answer.then((settled) => this.#take(index, router.name, settled, question, findings))
      : this.#take(index, router.name, answer, question, findings);
  }

  #take(
    index: number,
    name: RouterName,
    answer: RouterAnswer,
    question: Question,
    before: RouterFindings | null,
  ): Routed | Promise<Routed> {
    if (answer.says === 'refusal') {
      const { refusal, rule, instead } = answer;
      const { trace = noTrace, external } = join(before, instead.findings) ?? {};
      const undecided = { decidedBy: name, trace, ...(external === undefined ? {} : { external }) };
      return { refusal, rule, undecided, otherwise: () => this.#take(index, name, instead, question, before) };
    }
    const findings = join(before, answer.findings);
    if (answer.says === 'group') return decidedBy(name, answer, findings);
    return answer.asks === 'last' ? this.#leaveToLast(question, findings) : this.#ask(index + 1, question, findings);
  }

  #leaveToLast({ request, table }: Question, findings: RouterFindings | null): Routed {
    return decidedBy(this.#last.name, this.#last.route(request, table), findings);
  }
}

function join(before: RouterFindings | null, more: RouterFindings | null): RouterFindings | null {
  if (before === null || more === null) return more ?? before;
  return { ...before, ...more };
}

function decidedBy(name: RouterName, { choice }: GroupAnswer, findings: RouterFindings | null): Routed {
  const { group, cluster, rule, onUnavailable } = choice;
  const trace = findings?.trace ?? noTrace;
  const decision = { group, cluster, rule, decidedBy: name, onUnavailable, trace };
  const external = findings?.external;
  return { refusal: null, decision: external === undefined ? decision : { ...decision, external } };
}
