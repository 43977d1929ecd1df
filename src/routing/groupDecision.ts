import { type DecisionTrace, noTrace, type RuleDecision } from '../rules/decision.ts';

/** What a request's group came from. */
export type DecidedBy = 'rule' | 'external' | 'header' | 'default';

/** Where a request is to go, before a cluster is looked for. */
export interface GroupDecision {
  readonly group: string;
  /** Registry name of the one cluster that a rule chose; null for any of the group. */
  readonly cluster: string | null;
  /** Rule that set group or cluster; null when none did. */
  readonly rule: string | null;
  /**
   * `prefix` and `cookie` only where a cluster's own URL or a cookie of the handshake leads back to it, `transaction`
   * where the statement belongs to a transaction of a cluster.
   */
  readonly decidedBy: DecidedBy | 'prefix' | 'cookie' | 'transaction';
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
 * answer; the one of a cookie may be replaced by another of its group, where the handshake starts anew.
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

/**
 * Decides the routing group (docs/compatibility.md#routing-groups): what the rules set, else
 * the header where there are no rules (or none could be loaded), else the default group.
 * @param decision what the rules said; null when there are none
 * @param headerGroup value of the routing group header; undefined when absent
 */
export function decideGroup(
  decision: RuleDecision | null,
  headerGroup: string | undefined,
  defaultGroup: string,
): GroupDecision & { readonly decidedBy: DecidedBy } {
  if (decision === null) {
    return headerGroup === undefined || headerGroup === ''
      ? {
          group: defaultGroup,
          cluster: null,
          rule: null,
          decidedBy: 'default',
          onUnavailable: 'fallback',
          trace: noTrace,
        }
      : {
          group: headerGroup,
          cluster: null,
          rule: null,
          decidedBy: 'header',
          onUnavailable: 'fallback',
          trace: noTrace,
        };
  }
  const { cluster, rule, onUnavailable, trace } = decision;
  const fromRules = decision.routingGroup === '' ? null : decision.routingGroup;
  if (fromRules !== null || cluster !== null) {
    return { group: fromRules ?? defaultGroup, cluster, rule, decidedBy: 'rule', onUnavailable, trace };
  }
  const fromHeader = decision.useHeader && headerGroup !== '' ? headerGroup : undefined;
  return fromHeader === undefined
    ? { group: defaultGroup, cluster: null, rule: null, decidedBy: 'default', onUnavailable, trace }
    : { group: fromHeader, cluster: null, rule: null, decidedBy: 'header', onUnavailable, trace };
}

/**
 * Decides the routing group by the external rules service's answer (docs/compatibility.md#external-rules-service): its
 * group; the default group where it reports errors; header, then default group where it failed.
 * @param trace of the deny rules that were asked before
 */
export function decideExternally(
  external: ExternalAnswer,
  trace: DecisionTrace,
  headerGroup: string | undefined,
  defaultGroup: string,
): GroupDecision {
  const base = { cluster: null, rule: null, onUnavailable: 'fallback', trace, external } as const;
  switch (external.outcome) {
    case 'answered':
      return { ...base, group: external.routingGroup, decidedBy: 'external' };
    case 'errors':
      return { ...base, group: defaultGroup, decidedBy: 'default' };
    default:
      return headerGroup === undefined || headerGroup === ''
        ? { ...base, group: defaultGroup, decidedBy: 'default' }
        : { ...base, group: headerGroup, decidedBy: 'header' };
  }
}

/** Lines that the external rules service sets on the request to the cluster; null for none. */
export function setHeadersOf({ external }: GroupDecision): Readonly<Record<string, string>> | null {
  return external !== undefined && 'headers' in external ? external.headers : null;
}
