import type { RuleRequest, RuleTrace } from '../rules/decision.ts';
import { reasonOf } from './clusterChoice.ts';
import type { Refusal } from './refusal.ts';
import type { RoutedDecision, RouterChain } from './routers/routerChain.ts';
import type { RouterName } from './routers/routerNames.ts';
import type { RoutingTable } from './routingTable.ts';

/** A cluster that was considered. */
export interface ConsideredCluster {
  readonly cluster: string;
  readonly routingGroup: string;
  /** True: it is one of those that the request may be sent to. */
  readonly taken: boolean;
  /** Why it was taken, or why not. */
  readonly reason: string;
}

/** Where a request would go and why. */
export interface RoutingExplanation {
  readonly outcome: 'routed' | 'denied' | 'rejected' | 'noCluster';
  /** Sentence for people. */
  readonly message: string;
  readonly routingGroup: string;
  readonly decidedBy: RouterName | 'transaction';
  /** Rule that decided, denied or failed; null when none did. */
  readonly rule: string | null;
  /** Cluster that a rule pinned the request to. */
  readonly pinnedCluster: string | null;
  readonly onUnavailable: 'fallback' | 'reject';
  /** True when the default group serves in place of the chosen group. */
  readonly fallback: boolean;
  readonly clusters: readonly ConsideredCluster[];
  readonly rules: readonly RuleTrace[];
}

/** What the routers made of a request that is explained. */
export interface ExplainedRouting {
  /** The decision; of a refused request, what it would be otherwise. */
  readonly decision: RoutedDecision;
  /** Null: the request is not refused. */
  readonly refused: { readonly refusal: Refusal; readonly rule: string | null } | null;
}

/** Asks the routers of a chain as for a request. */
export async function routingOf(
  chain: RouterChain,
  request: RuleRequest,
  table: RoutingTable,
): Promise<ExplainedRouting> {
  let routed = await chain.decide(request, table);
  let refused: ExplainedRouting['refused'] = null;
  while (routed.refusal !== null) {
    refused ??= routed;
    routed = await routed.otherwise();
  }
  return { decision: routed.decision, refused };
}

/** A cluster that began the transaction of a statement. */
export interface TransactionOwner {
  readonly transactionId: string;
  readonly cluster: string;
}

/**
 * Explains a decision against the routing table: the same steps as for a request, but every cluster is listed, and
 * nothing is chosen by chance or sent.
 * @param began the cluster of the statement's transaction; null outside of transactions that are known
 */
export function explainRouting(
  table: RoutingTable,
  { decision, refused }: ExplainedRouting,
  defaultGroup: string,
  began: TransactionOwner | null,
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
      clusters: [],
    };
  }
  if (began !== null) return { ...base, ...boundBy(table, group, began) };
  const isChosen = (name: string, groupOf: string): boolean =>
    cluster === null ? groupOf === group : name === cluster;
  const entries = [...table.clusters.values()];
  const canTake = (entry: (typeof entries)[number]): boolean => entry.active && entry.health.status === 'HEALTHY';
  const isServed = entries.some((entry) => isChosen(entry.name, entry.routingGroup) && canTake(entry));
  const fallsBack = !isServed && onUnavailable === 'fallback';
  const clusters = entries.map((entry): ConsideredCluster => {
    const isWanted = fallsBack ? entry.routingGroup === defaultGroup : isChosen(entry.name, entry.routingGroup);
    const taken = isWanted && canTake(entry);
    const other =
      cluster === null ? `belongs to the group ${entry.routingGroup}` : 'is not the cluster that the rule chose';
    const reason = taken ? 'active and healthy' : canTake(entry) ? other : reasonOf(entry, null);
    return { cluster: entry.name, routingGroup: entry.routingGroup, taken, reason };
  });
  const takers = clusters.filter(({ taken }) => taken).map((entry) => entry.cluster);
  const chosen = cluster === null ? `routing group ${group}` : `cluster ${cluster}`;
  const by = decision.rule === null ? `by ${decidedBy}` : `by rule ${decision.rule}`;
  if (takers.length === 0) {
    return {
      ...base,
      outcome: 'noCluster',
      message: `no cluster can take it: ${chosen} ${by}`,
      rule: decision.rule,
      fallback: fallsBack,
      clusters,
    };
  }
  const tail = fallsBack ? `, which has none; the default group ${defaultGroup} serves` : '';
  const message = `${takers.join(' or ')}: ${chosen} ${by}${tail}`;
  return { ...base, outcome: 'routed', message, rule: decision.rule, fallback: fallsBack, clusters };
}

/** What a transaction decides, whatever the group: the cluster that began it, whether it takes new queries or not. */
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
    clusters,
  };
}
