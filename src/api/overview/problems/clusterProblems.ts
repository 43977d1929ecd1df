import type { ClusterHealth } from '../../../model/registryCluster.ts';
import { takesNewQueries } from '../../../routing/routingTable.ts';
import type { OverviewProblem } from '../../answers/overview.ts';
import { affected, timeText } from './problemList.ts';
import type { RuleTargetsIndex } from './ruleProblems.ts';

export interface ClusterFact {
  readonly name: string;
  /** Null: nothing is routed, as its resource was never valid; `reason` states why. */
  readonly group: string | null;
  readonly active: boolean;
  readonly status: ClusterHealth;
  readonly reason: string;
  /** True if a check has said something of it since the process started. */
  readonly isChecked: boolean;
  /** Since when it takes no queries, or is not accepted; null: not known. Milliseconds since 1970. */
  readonly since: number | null;
}

export interface GroupFact {
  readonly name: string;
  /** Groups that serve in its place, the default group last; none if queries wait for its own clusters. */
  readonly substitutes: readonly string[];
  readonly waits: boolean;
  /** An unhealthy cluster is tried rather than none. */
  readonly bestEffort: boolean;
  readonly isDefault: boolean;
}

/** Clusters that are down, routing groups without a cluster that takes queries, and resources that are not accepted. Pure. */
export function clusterProblems(
  clusters: readonly ClusterFact[],
  groups: readonly GroupFact[],
  targets: RuleTargetsIndex,
): OverviewProblem[] {
  const members = new Map<string, ClusterFact[]>();
  for (const cluster of clusters) {
    if (cluster.group === null) continue;
    const some = members.get(cluster.group);
    if (some === undefined) members.set(cluster.group, [cluster]);
    else some.push(cluster);
  }
  const serves = (name: string): boolean => (members.get(name) ?? []).some(takesQueries);
  const unavailable = groups.flatMap((group) => {
    const own = members.get(group.name) ?? [];
    return own.length === 0 || own.some(takesQueries) ? [] : groupProblem(group, own, targets, serves);
  });
  return [...unavailable, ...clusters.flatMap((cluster) => clusterProblem(cluster, targets))];
}

function takesQueries({ active, status, isChecked }: ClusterFact): boolean {
  // Before its first check nothing is known of a cluster that could be a problem.
  return takesNewQueries({ active, health: { status } }) || (active && !isChecked);
}

function clusterProblem(cluster: ClusterFact, targets: RuleTargetsIndex): OverviewProblem[] {
  const { name, group, active, status, reason, since } = cluster;
  const object = { kind: 'cluster', name } as const;
  if (group === null) {
    const of = affected([], targets.ofCluster(name));
    return [{ kind: 'ClusterRejected', severity: 'warning', object, reason, since: timeText(since), ...of }];
  }
  if (!active || status !== 'UNHEALTHY') return [];
  const of = affected([group], [...targets.ofGroup(group), ...targets.ofCluster(name)]);
  return [{ kind: 'ClusterUnhealthy', severity: 'warning', object, reason, since: timeText(since), ...of }];
}

function groupProblem(
  { name, substitutes, waits, bestEffort, isDefault }: GroupFact,
  members: readonly ClusterFact[],
  targets: RuleTargetsIndex,
  serves: (group: string) => boolean,
): OverviewProblem[] {
  const rules = [...targets.ofGroup(name), ...members.flatMap((cluster) => [...targets.ofCluster(cluster.name)])];
  const isRetired = members.every(({ active }) => !active);
  if (isRetired && rules.length === 0 && !isDefault) return [];
  const substitute = substitutes.find(serves);
  const isRefused = substitute === undefined && !waits && !(bestEffort && members.some(({ active }) => active));
  const times = members.map(({ since }) => since);
  const since = times.some((time) => time === null) ? null : Math.max(...(times as number[]));
  return [
    {
      kind: 'GroupUnavailable',
      severity: isRefused ? 'critical' : 'warning',
      object: { kind: 'routingGroup', name },
      reason: `${membersText(members)}; ${consequence(substitute, waits, isRefused)}`,
      since: timeText(since),
      ...affected([name], rules),
    },
  ];
}

const MAX_NAMED = 3;

function membersText(members: readonly ClusterFact[]): string {
  const texts = members
    .slice(0, MAX_NAMED)
    .map(({ name, active, status }) => `${name} is ${active ? status : 'switched off'}`);
  const more = members.length - texts.length;
  return [...texts, ...(more > 0 ? [`${more} more`] : [])].join(', ');
}

function consequence(substitute: string | undefined, waits: boolean, isRefused: boolean): string {
  if (substitute !== undefined) return `its queries go to ${substitute}, unless a rule says otherwise`;
  if (waits) return 'its queries wait';
  return isRefused ? 'its queries are refused' : 'its queries are tried at unhealthy clusters';
}
