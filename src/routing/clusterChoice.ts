import { type ChoiceStep, reasonOf, stepsTo } from './choiceSteps.ts';
import {
  type EligibleClusters,
  findEligible,
  type HasCapacity,
  type PassedGroup,
  unlimitedCapacity,
} from './eligibleClusters.ts';
import type { GroupDecision } from './groupDecision.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';

export interface RejectedCluster {
  readonly cluster: string;
  readonly group: string;
  /** Sentence part, e.g. `is inactive` or `is UNHEALTHY (connection refused)`. */
  readonly reason: string;
}

/** Picks one of the eligible clusters; there is at least one. */
export type PickCluster = (candidates: readonly ClusterEntry[], group: string) => ClusterEntry;

export interface NoCluster {
  readonly cluster: null;
  readonly notTaken: readonly RejectedCluster[];
  /** Examined routing groups in order. */
  readonly passed: readonly PassedGroup[];
  readonly takers: EligibleClusters;
  /** True if an active cluster of these groups has not been checked yet: a retry soon makes sense. */
  readonly pending: boolean;
}

/** The cluster chosen for a request, or the reason for its absence. */
export type ClusterChoice =
  | {
      readonly cluster: ClusterEntry;
      /** True if another group replaces the chosen one. */
      readonly fallback: boolean;
      /** Steps to this cluster; null in the usual case that it belongs to the decided group. */
      readonly steps: readonly ChoiceStep[] | null;
      readonly takers: EligibleClusters;
    }
  | NoCluster;

/**
 * Chooses a cluster: registered, active, HEALTHY, of the group; else of its fallbacks, then of the default group,
 * unless the rule rejects (docs/routing.md#which-cluster-takes-a-query).
 * @param excluded clusters that already failed this request, with the error; null for none
 * @param pick chooses among the eligible clusters of a group
 */
export function chooseCluster(
  table: RoutingTable,
  decision: GroupDecision,
  defaultGroup: string,
  excluded: ReadonlyMap<string, string> | null,
  pick: PickCluster,
  hasRoom: HasCapacity = unlimitedCapacity,
): ClusterChoice {
  const takers = findEligible({ table, decision, defaultGroup, excluded, hasRoom });
  const { as, candidates } = takers;
  if (candidates.length === 0) return noCluster(takers, excluded);
  const cluster = as === 'pinned' ? (candidates[0] as ClusterEntry) : pick(candidates, takers.group);
  return {
    cluster,
    takers,
    fallback: as === 'fallback' || as === 'default',
    steps: takers.passed.length === 0 ? null : stepsTo(takers, [cluster], excluded),
  };
}

function noCluster(takers: EligibleClusters, excluded: ReadonlyMap<string, string> | null): NoCluster {
  const { passed } = takers;
  const notTaken = new Map<string, RejectedCluster>();
  for (const { as, group, members } of passed) {
    if (as === 'pinned' && members.length === 0)
      notTaken.set(group, { cluster: group, group, reason: 'is not registered' });
    for (const member of members) {
      const { name, routingGroup } = member;
      if (!notTaken.has(name))
        notTaken.set(name, { cluster: name, group: routingGroup, reason: reasonOf(member, excluded) });
    }
  }
  const pending = passed.some(({ members }) =>
    members.some(({ active, health }) => active && health.status === 'PENDING'),
  );
  return { cluster: null, takers, notTaken: [...notTaken.values()], passed, pending };
}

/** Describes the rejection: the group, and the reason for each cluster. */
export function explainNoCluster(
  decision: GroupDecision,
  { notTaken, passed }: Pick<NoCluster, 'notTaken' | 'passed'>,
): string {
  const refusal =
    decision.cluster === null
      ? `No healthy cluster in routing group ${quote(decision.group)}`
      : `Cluster ${quote(decision.cluster)} cannot take the query`;
  const fallbacks = passed.filter(({ as }) => as === 'fallback').map(({ group }) => quote(group));
  const named = fallbacks.length > 1 ? `fallbacks ${fallbacks.join(', ')}` : `fallback ${fallbacks.join()}`;
  const instead = fallbacks.length === 0 ? '' : ` nor in its ${named}`;
  const last = passed.find(({ as }) => as === 'default');
  const tail = last === undefined ? '' : ` nor in the default routing group ${quote(last.group)}`;
  const by = decision.rule === null ? '' : ` (chosen by rule ${quote(decision.rule)})`;
  const where = `${refusal}${by}${instead}${tail}`;
  if (notTaken.length === 0) return `${where}: no cluster is registered there`;
  return `${where}: ${notTaken.map(({ cluster, reason }) => `${cluster} ${reason}`).join('; ')}`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}…` : text);
}
