import { noTrace } from '../rules/decision.ts';
import type { RoutingTable } from './routingTable.ts';
import { alwaysRoom, findTakers, routable } from './takers.ts';

/** What becomes of new queries of a routing group that none of its clusters takes. */
export type NewQueries =
  /** Clusters of another group take them: of a fallback, or of the default group. */
  | { readonly outcome: 'fallback' | 'default'; readonly routingGroup: string; readonly clusters: readonly string[] }
  /** They wait for a cluster; beyond `maxQueued`, and after `maxWaitMillis`, they are refused. */
  | { readonly outcome: 'wait'; readonly maxQueued: number; readonly maxWaitMillis: number }
  | { readonly outcome: 'refused' };

/**
 * What new queries of a routing group would get if all its clusters were switched off, and all else were as it is now
 * (docs/routing.md#fallbacks). Queries that a rule sends there with `onUnavailable: reject` are refused in any case.
 */
export function newQueriesWithout(table: RoutingTable, group: string, defaultGroup: string): NewQueries {
  const groups = new Map(table.groups);
  groups.delete(group);
  const {
    as,
    group: taker,
    candidates,
  } = findTakers({
    table: { ...table, groups },
    decision: { group, cluster: null, rule: null, decidedBy: 'default', onUnavailable: 'fallback', trace: noTrace },
    defaultGroup,
    excluded: null,
    hasRoom: alwaysRoom,
  });
  if (candidates.length > 0 && (as === 'fallback' || as === 'default'))
    return { outcome: as, routingGroup: taker, clusters: candidates.map(({ name }) => name) };
  const queue = table.admission.groups.get(group)?.queue;
  if (queue?.whenUnavailable === 'wait')
    return { outcome: 'wait', maxQueued: queue.maxQueued, maxWaitMillis: queue.maxWaitMs };
  return { outcome: 'refused' };
}

/** Clusters of a routing group that take new queries now, by name. */
export function takersOf(table: RoutingTable, group: string): readonly string[] {
  return routable(table.groups.get(group), null).map(({ name }) => name);
}
