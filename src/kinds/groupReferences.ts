import type { ConditionDraft } from '../model/condition.ts';
import type { GroupPolicy } from '../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../routing/routingTable.ts';

/** Condition `ResolvedRefs` without its generation. */
export type References = Pick<ConditionDraft, 'status' | 'reason' | 'message'>;

export function clustersByGroup(clusters: readonly RoutableCluster[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { routingGroup } of clusters) counts.set(routingGroup, (counts.get(routingGroup) ?? 0) + 1);
  return counts;
}

/** Routing groups that queries can be sent to: those with clusters, and those with a fallback that has some. */
export function servedGroups(
  clusters: readonly RoutableCluster[],
  policies: ReadonlyMap<string, GroupPolicy>,
): ReadonlySet<string> {
  const counts = clustersByGroup(clusters);
  const served = new Set(counts.keys());
  for (const { name, fallbacks } of policies.values()) {
    if (fallbacks.some((fallback) => counts.has(fallback))) served.add(name);
  }
  return served;
}

/** `the routing group a`, `the routing groups a, b`: the first ten of them. */
export function groupsText(names: readonly string[]): string {
  const listed = names.slice(0, 10).join(', ');
  return `the routing group${names.length === 1 ? '' : 's'} ${listed}${names.length > 10 ? ', …' : ''}`;
}
