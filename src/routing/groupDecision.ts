import { type DecisionTrace, noTrace } from '../rules/decision.ts';

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

/** Headers that the external rules service sets on the request to the cluster, or null. */
export function setHeadersOf({ external }: GroupDecision): Readonly<Record<string, string>> | null {
  return external !== undefined && 'headers' in external ? external.headers : null;
}
