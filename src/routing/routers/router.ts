import type { RuleRequest } from '../../rules/decision.ts';
import type { GroupDecision } from '../groupDecision.ts';
import type { Refusal } from '../refusal.ts';
import type { RoutingTable } from '../routingTable.ts';
import type { RouterName, RouterStep } from './routerNames.ts';

export type RouterChoice = Pick<GroupDecision, 'group' | 'cluster' | 'rule' | 'onUnavailable'>;

/** Additions of a router to the decision's trace, independent of which router decides. */
export type RouterFindings = Partial<Pick<GroupDecision, 'trace' | 'external'>>;

/** It chooses a group: no other router is called. */
export interface GroupAnswer {
  readonly says: 'group';
  readonly choice: RouterChoice;
  readonly findings: RouterFindings | null;
}

export interface NothingAnswer {
  readonly says: 'nothing';
  /** The next router to call: the next in order, or only the last. */
  readonly asks: 'next' | 'last';
  readonly findings: RouterFindings | null;
}

/** The request is rejected. */
export interface RefusalAnswer {
  readonly says: 'refusal';
  readonly refusal: Refusal;
  /** Rule that rejects, or null. */
  readonly rule: string | null;
  /** Result without the rejection, for explanations. */
  readonly instead: GroupAnswer | NothingAnswer;
}

export type RouterAnswer = GroupAnswer | NothingAnswer | RefusalAnswer;

/** A step of the decision about a request's routing group. Routers are called in turn, independently. */
export interface Router {
  readonly name: RouterName;
  /** Its step in traces of requests; null if it takes negligible time. */
  readonly step: RouterStep | null;
  isAsked(table: RoutingTable): boolean;
  /** True if it reads user and query of the requests with this table, so that they must be analyzed. */
  needsAnalysis(table: RoutingTable): boolean;
  /**
   * Returns its result, or a promise if it makes a request: such a router limits the time itself, and never rejects.
   */
  route(request: RuleRequest, table: RoutingTable): RouterAnswer | Promise<RouterAnswer>;
}

export const nothing: NothingAnswer = { says: 'nothing', asks: 'next', findings: null };
