import type { RuleRequest } from '../../rules/decision.ts';
import type { GroupDecision } from '../groupDecision.ts';
import type { Refusal } from '../refusal.ts';
import type { RoutingTable } from '../routingTable.ts';
import type { RouterName, RouterStep } from './routerNames.ts';

/** What a router chooses. */
export type RouterChoice = Pick<GroupDecision, 'group' | 'cluster' | 'rule' | 'onUnavailable'>;

/** What a router adds to the decision's trace, whichever router decides. */
export type RouterFindings = Partial<Pick<GroupDecision, 'trace' | 'external'>>;

/** It chooses a group: no other router is asked. */
export interface GroupAnswer {
  readonly says: 'group';
  readonly choice: RouterChoice;
  readonly findings: RouterFindings | null;
}

/** It does not decide about the request. */
export interface NothingAnswer {
  readonly says: 'nothing';
  /** Which router is asked in its place: the next one, or only the last. */
  readonly asks: 'next' | 'last';
  readonly findings: RouterFindings | null;
}

/** The request is refused. */
export interface RefusalAnswer {
  readonly says: 'refusal';
  readonly refusal: Refusal;
  /** Rule that refuses; null where it is no rule. */
  readonly rule: string | null;
  /** What it would answer otherwise, for explanations. */
  readonly instead: GroupAnswer | NothingAnswer;
}

/** What a router says of a request. */
export type RouterAnswer = GroupAnswer | NothingAnswer | RefusalAnswer;

/** A step of the decision about a request's routing group. Routers are asked in turn, each on its own. */
export interface Router {
  readonly name: RouterName;
  /** Its step in traces of requests; null where it takes no time to speak of. */
  readonly step: RouterStep | null;
  /** Whether it takes part with this table. */
  isAsked(table: RoutingTable): boolean;
  /** Whether it reads user and query of the requests with this table, so that they have to be analysed. */
  needsAnalysis(table: RoutingTable): boolean;
  /**
   * Answers at once, or, where it has to ask somebody, later: a router that makes requests wait limits that time itself,
   * and never rejects.
   */
  route(request: RuleRequest, table: RoutingTable): RouterAnswer | Promise<RouterAnswer>;
}

/** The answer of a router that has nothing to say, and found nothing. */
export const nothing: NothingAnswer = { says: 'nothing', asks: 'next', findings: null };
