import { type DecisionTrace, noTrace } from '../rules/decision.ts';
import type { RouterName } from './routers/routerNames.ts';

/** Where a request is to go, before a cluster is looked for. */
export interface GroupDecision {
  readonly group: string;
  /** Registry name of the one cluster that a rule chose; null for any of the group. */
  readonly cluster: string | null;
  /** Rule that set group or cluster; null when none did. */
  readonly rule: string | null;
  /**
   * The router that chose the group. `prefix` and `cookie` only where a cluster's own URL or a cookie of the handshake
   * leads back to it, `transaction` where the statement belongs to a transaction of a cluster.
   */
  readonly decidedBy: RouterName | 'prefix' | 'cookie' | 'transaction';
  readonly onUnavailable: 'fallback' | 'reject';
  readonly trace: DecisionTrace;
  /** What the external rules service said; absent where none is asked. */
  readonly external?: ExternalAnswer;
}

/** What came of asking the external rules service (docs/rules.md#an-external-rules-service). */
export type ExternalAnswer =
  | {
      readonly outcome: 'answered';
      readonly routingGroup: string;
      /** Lines for the request to the cluster. */
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly outcome: 'errors';
      readonly errors: readonly string[];
      readonly headers: Readonly<Record<string, string>>;
    }
  /** `skipped`: it was not asked, as it failed before. */
  | { readonly outcome: 'failed' | 'skipped'; readonly reason: string };

/**
 * The decision of a request that belongs to one cluster, as its URL or a cookie says. The cluster of a URL alone can
 * answer; the one of a cookie may be replaced by another of its group, where the handshake starts again.
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
 * The decision of a statement of a transaction: the cluster that began it, whatever was decided before. What rules and
 * the external rules service said stays in the trace.
 */
export function ofTransaction(
  decided: GroupDecision,
  { name, routingGroup }: { readonly name: string; readonly routingGroup: string },
): GroupDecision {
  const group = routingGroup === '' ? decided.group : routingGroup;
  return { ...decided, group, cluster: name, rule: null, decidedBy: 'transaction', onUnavailable: 'reject' };
}

/** Lines that the external rules service sets on the request to the cluster; null for none. */
export function setHeadersOf({ external }: GroupDecision): Readonly<Record<string, string>> | null {
  return external !== undefined && 'headers' in external ? external.headers : null;
}
