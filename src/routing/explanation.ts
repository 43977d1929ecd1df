import { noTrace, type RuleRequest, type RuleTrace } from '../rules/decision.ts';
import { findEligible, type GroupRole, type HasCapacity, routable, unlimitedCapacity } from './clusterChooser.ts';
import type { GroupDecision, GroupRouter, RoutedDecision, RouterName } from './groupRouter.ts';
import type { Refusal } from './refusal.ts';
import { type ClusterEntry, isAvailable, type RoutingTable, takesNewQueries } from './routingTable.ts';
import { reasonOf, stepsPast, stepsTo } from './storedDecision.ts';

export interface ConsideredCluster {
  readonly cluster: string;
  readonly routingGroup: string;
  readonly taken: boolean;
  readonly reason: string;
}

export interface RoutingExplanation {
  readonly outcome: 'routed' | 'denied' | 'rejected' | 'noCluster';
  readonly message: string;
  readonly routingGroup: string;
  readonly decidedBy: RouterName | 'transaction';
  /** Rule that decided, denied or failed, or null. */
  readonly rule: string | null;
  readonly pinnedCluster: string | null;
  readonly onUnavailable: 'fallback' | 'reject';
  /** True if another group replaces the chosen group: one of its fallbacks, or the default group. */
  readonly fallback: boolean;
  /** Steps to the eligible clusters, a sentence each; empty if they belong to the chosen group. */
  readonly steps: readonly string[];
  readonly clusters: readonly ConsideredCluster[];
  readonly rules: readonly RuleTrace[];
}

export interface ExplainedRouting {
  /** The decision; for a rejected request, the decision without the rejection. */
  readonly decision: RoutedDecision;
  /** Null: the request is not rejected. */
  readonly refused: { readonly refusal: Refusal; readonly rule: string | null } | null;
}

/** Decides as for a request. */
export async function routingOf(
  router: GroupRouter,
  request: RuleRequest,
  table: RoutingTable,
): Promise<ExplainedRouting> {
  let routed = await router.decide(request, table);
  let refused: ExplainedRouting['refused'] = null;
  while (routed.refusal !== null) {
    refused ??= routed;
    routed = await routed.otherwise();
  }
  return { decision: routed.decision, refused };
}

export interface TransactionOwner {
  readonly transactionId: string;
  readonly cluster: string;
}

/**
 * Explains a decision against the routing table: the same steps as for a request, but every cluster is listed, and
 * nothing is random or sent.
 * @param began the cluster of the statement's transaction; null outside of known transactions
 * @param hasCapacity returns true if a cluster with a limit has capacity for one more query
 */
export function explainRouting(
  table: RoutingTable,
  { decision, refused }: ExplainedRouting,
  defaultGroup: string,
  began: TransactionOwner | null,
  hasCapacity: HasCapacity = unlimitedCapacity,
): RoutingExplanation {
  const { group, cluster, onUnavailable, decidedBy, trace } = decision;
  const base = { routingGroup: group, decidedBy, pinnedCluster: cluster, onUnavailable, rules: trace.rules };
  if (refused !== null) {
    const { refusal, rule } = refused;
    return {
      ...base,
      outcome: refusal.reason === 'denied' ? 'denied' : 'rejected',
      message: rule === null ? refusal.message : `${rule}: ${refusal.message}`,
      rule,
      fallback: false,
      steps: [],
      clusters: [],
    };
  }
  if (began !== null) return { ...base, ...boundBy(table, group, began) };
  const eligible = findEligible({ table, decision, defaultGroup, excluded: null, hasCapacity });
  const { as, candidates, passed } = eligible;
  const clusters = [...table.clusters.values()].map((entry): ConsideredCluster => {
    const taken = candidates.includes(entry);
    const { name, routingGroup, maxRunningQueries } = entry;
    const isMeant = taken || routingGroup === eligible.group || passed.some(({ group }) => group === routingGroup);
    const isFull = isMeant && maxRunningQueries !== undefined && !hasCapacity(name);
    return { cluster: name, routingGroup, taken, reason: reasonFor(entry, taken, cluster, isFull) };
  });
  const names = candidates.map(({ name }) => name);
  const chosen = cluster === null ? `routing group ${group}` : `cluster ${cluster}`;
  const by = decision.rule === null ? `by ${decidedBy}` : `by rule ${decision.rule}`;
  if (names.length === 0) {
    return {
      ...base,
      outcome: 'noCluster',
      message: `no cluster can take it: ${chosen} ${by}${waitTail(table, decision)}`,
      rule: decision.rule,
      fallback: onUnavailable === 'fallback',
      steps: stepsPast(passed, null).map(({ text }) => text),
      clusters,
    };
  }
  const tail = servesTail(as, eligible.group, passed[0]?.because);
  const waits = as === 'bestEffort' ? waitTail(table, decision) : '';
  const message = `${names.join(' or ')}: ${chosen} ${by}${tail}${waits}`;
  return {
    ...base,
    outcome: 'routed',
    message,
    rule: decision.rule,
    fallback: as === 'fallback' || as === 'default',
    steps: stepsTo(eligible, candidates, null)?.map(({ text }) => text) ?? [],
    clusters,
  };
}

/**
 * @param pinned the cluster that a rule chose; null for none
 * @param isFull true if the decision allows it, and it is at its limit
 */
function reasonFor(entry: ClusterEntry, taken: boolean, pinned: string | null, isFull: boolean): string {
  if (taken && isAvailable(entry)) return isFull ? `active and healthy, ${fullText(entry)}` : 'active and healthy';
  if (taken) return `best effort: ${reasonOf(entry, null)}`;
  if (!takesNewQueries(entry)) return reasonOf(entry, null);
  if (isFull) return fullText(entry);
  return pinned === null ? `belongs to the group ${entry.routingGroup}` : 'is not the cluster that the rule chose';
}

function fullText({ maxRunningQueries }: ClusterEntry): string {
  return `full (${maxRunningQueries} queries, maxRunningQueries)`;
}

function servesTail(as: GroupRole, group: string, because: 'unavailable' | 'full' | undefined): string {
  const lack = because === 'full' ? 'which is full' : 'which has none';
  if (as === 'fallback') return `, ${lack}; its fallback ${group} serves`;
  if (as === 'default') return `, ${lack}; the default group ${group} serves`;
  return as === 'bestEffort' ? ', which has no healthy one; best effort' : '';
}

function waitTail({ admission }: RoutingTable, { group, cluster }: GroupDecision): string {
  const queue = cluster === null ? admission.groups.get(group)?.queue : undefined;
  return queue?.whenUnavailable === 'wait' ? `; a query waits for one, at most ${queue.maxWaitMs / 1000} s` : '';
}

/** A transaction is bound to the cluster that began it, even if the cluster is inactive. */
function boundBy(
  table: RoutingTable,
  group: string,
  { transactionId, cluster: owner }: TransactionOwner,
): Omit<RoutingExplanation, 'rules'> {
  const clusters = [...table.clusters.values()].map(({ name, routingGroup }): ConsideredCluster => {
    const taken = name === owner;
    return { cluster: name, routingGroup, taken, reason: `${taken ? 'began' : 'did not begin'} the transaction` };
  });
  return {
    outcome: 'routed',
    message: `${owner}: it began transaction ${transactionId}`,
    routingGroup: table.clusters.get(owner)?.routingGroup ?? group,
    decidedBy: 'transaction',
    rule: null,
    pinnedCluster: owner,
    onUnavailable: 'reject',
    fallback: false,
    steps: [],
    clusters,
  };
}

/** Handling of new queries of a routing group without active clusters. */
export type NewQueryHandling =
  /** They are sent to another group: a fallback, or the default group. */
  | { readonly outcome: 'fallback' | 'default'; readonly routingGroup: string; readonly clusters: readonly string[] }
  /** They are queued for a cluster; beyond `maxQueued`, and after `maxWaitMillis`, they are rejected. */
  | { readonly outcome: 'wait'; readonly maxQueued: number; readonly maxWaitMillis: number }
  | { readonly outcome: 'refused' };

/**
 * Predicts the handling of new queries of a routing group if all its clusters were inactive
 * (docs/routing.md#fallbacks). Queries that a rule sends there with `whenUnavailable: Reject` are rejected in any case.
 */
export function newQueriesWithout(table: RoutingTable, group: string, defaultGroup: string): NewQueryHandling {
  const groups = new Map(table.groups);
  groups.delete(group);
  const {
    as,
    group: servingGroup,
    candidates,
  } = findEligible({
    table: { ...table, groups },
    decision: { group, cluster: null, rule: null, decidedBy: 'default', onUnavailable: 'fallback', trace: noTrace },
    defaultGroup,
    excluded: null,
    hasCapacity: unlimitedCapacity,
  });
  if (candidates.length > 0 && (as === 'fallback' || as === 'default'))
    return { outcome: as, routingGroup: servingGroup, clusters: candidates.map(({ name }) => name) };
  const queue = table.admission.groups.get(group)?.queue;
  if (queue?.whenUnavailable === 'wait')
    return { outcome: 'wait', maxQueued: queue.maxQueued, maxWaitMillis: queue.maxWaitMs };
  return { outcome: 'refused' };
}

export function activeClustersOf(table: RoutingTable, group: string): readonly string[] {
  return routable(table.groups.get(group), null).map(({ name }) => name);
}
