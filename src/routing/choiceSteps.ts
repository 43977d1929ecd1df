import type { EligibleClusters, GroupRole, PassedGroup } from './eligibleClusters.ts';
import type { ClusterEntry } from './routingTable.ts';

/** A step from the decided routing group to the cluster that receives the request. */
export interface ChoiceStep {
  readonly group: string;
  readonly outcome: 'unavailable' | 'full' | 'serves' | 'bestEffort';
  /** Description for users: `group etl: no healthy cluster (etl-1 is UNHEALTHY (connection refused))`. */
  readonly text: string;
}

/** Maximum number of clusters named by a step; a group may have hundreds. */
const MAX_NAMED = 5;
const MAX_REASON = 256;

const labels: Readonly<Record<GroupRole, string>> = {
  group: 'group',
  pinned: 'cluster',
  fallback: 'fallback',
  default: 'default group',
  bestEffort: 'best effort',
};

/**
 * Returns the steps to the eligible clusters; null if the decided group has one.
 * @param takers has at least one candidate
 * @param picked named candidates: the chosen one, or all
 * @param excluded clusters that already failed the request; null for none
 */
export function stepsTo(
  { as, group, passed }: EligibleClusters,
  picked: readonly ClusterEntry[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ChoiceStep[] | null {
  if (passed.length === 0) return null;
  const names = picked.map((cluster) =>
    as === 'bestEffort' ? `${cluster.name} ${reasonOf(cluster, excluded)}` : cluster.name,
  );
  const text =
    as === 'bestEffort' ? `best effort: ${listed(names, ' or ')}` : `${labels[as]} ${group}: ${listed(names, ' or ')}`;
  const outcome = as === 'bestEffort' ? 'bestEffort' : 'serves';
  return [...stepsPast(passed, excluded), { group, outcome, text }];
}

/** The steps past groups without eligible clusters. */
export function stepsPast(
  passed: readonly PassedGroup[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ChoiceStep[] {
  return passed.map((one): ChoiceStep => ({ group: one.group, outcome: one.because, text: passedText(one, excluded) }));
}

export function stepsText(steps: readonly ChoiceStep[]): string {
  return steps.map(({ text }) => text).join('; ');
}

function passedText(
  { as, group, because, members }: PassedGroup,
  excluded: ReadonlyMap<string, string> | null,
): string {
  const label = `${labels[as]} ${group}`;
  if (members.length === 0)
    return as === 'pinned' ? `${label} is not registered` : `${label}: no cluster is registered there`;
  if (as === 'pinned')
    return `${label} ${listed(
      members.map((member) => reasonOf(member, excluded)),
      '; ',
    )}`;
  const reasons = members.map((member) => `${member.name} ${reasonOf(member, excluded)}`);
  return `${label}: ${because === 'full' ? 'no cluster has room' : 'no healthy cluster'} (${listed(reasons, '; ')})`;
}

function listed(texts: readonly string[], separator: string): string {
  const left = texts.length - MAX_NAMED;
  const named = texts
    .slice(0, MAX_NAMED)
    .map((text) => (text.length > MAX_REASON ? `${text.slice(0, MAX_REASON)}…` : text));
  return named.join(separator) + (left > 0 ? `${separator}${left} more` : '');
}

/** Returns the reason that a cluster is not eligible: a part of a sentence. */
export function reasonOf(cluster: ClusterEntry, excluded: ReadonlyMap<string, string> | null): string {
  const failure = excluded?.get(cluster.name);
  if (failure !== undefined) return `failed (${failure})`;
  if (!cluster.active) return 'is inactive';
  const { status, reason } = cluster.health;
  if (status !== 'HEALTHY') return `is ${status} (${reason})`;
  return cluster.maxRunningQueries === undefined
    ? 'is HEALTHY'
    : `is full (maxRunningQueries ${cluster.maxRunningQueries})`;
}
