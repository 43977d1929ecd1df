import { noTrace } from '../rules/decision.ts';
import { findEligible, routable, unlimitedCapacity } from './eligibleClusters.ts';
import type { RoutingTable } from './routingTable.ts';

/** Handling of new queries of a routing group without active clusters. */
export type NewQueryHandling =
  /** They are sent to another group: a fallback, or the default group. */
  | { readonly outcome: 'fallback' | 'default'; readonly routingGroup: string; readonly clusters: readonly string[] }
  /** They are queued for a cluster; beyond `maxQueued`, and after `maxWaitMillis`, they are rejected. */
  | { readonly outcome: 'wait'; readonly maxQueued: number; readonly maxWaitMillis: number }
  | { readonly outcome: 'refused' };

/**
 * Predicts the handling of new queries of a routing group if all its clusters were inactive
 * (docs/routing.md#fallbacks). Queries that a rule sends there with `onUnavailable: reject` are rejected in any case.
 */
export function newQueriesWithout(table: RoutingTable, group: string, defaultGroup: string): NewQueryHandling {
  const groups = new Map(table.groups);
  groups.delete(group);
  const {
    as,
    group: taker,
    candidates,
  } = findEligible({
    table: { ...table, groups },
    decision: { group, cluster: null, rule: null, decidedBy: 'default', onUnavailable: 'fallback', trace: noTrace },
    defaultGroup,
    excluded: null,
    hasRoom: unlimitedCapacity,
  });
  if (candidates.length > 0 && (as === 'fallback' || as === 'default'))
    return { outcome: as, routingGroup: taker, clusters: candidates.map(({ name }) => name) };
  const queue = table.admission.groups.get(group)?.queue;
  if (queue?.whenUnavailable === 'wait')
    return { outcome: 'wait', maxQueued: queue.maxQueued, maxWaitMillis: queue.maxWaitMs };
  return { outcome: 'refused' };
}

export function activeClustersOf(table: RoutingTable, group: string): readonly string[] {
  return routable(table.groups.get(group), null).map(({ name }) => name);
}
