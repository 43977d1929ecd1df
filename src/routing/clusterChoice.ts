import type { GroupPolicy } from './admissionPolicy.ts';
import type { GroupDecision } from './groupDecision.ts';
import { type ClusterEntry, type RoutingTable, takesNewQueries } from './routingTable.ts';

/** Returns true if a cluster with a limit (`maxRunningQueries`) has capacity for one more query. */
export type HasCapacity = (cluster: string) => boolean;

export const unlimitedCapacity: HasCapacity = () => true;

/**
 * Role of an examined routing group: `pinned` stands for the one cluster that a rule chose, `bestEffort` for unhealthy
 * clusters of the decided group.
 */
export type GroupRole = 'group' | 'pinned' | 'fallback' | 'default' | 'bestEffort';

export interface PassedGroup {
  readonly as: GroupRole;
  readonly group: string;
  /** `full`: it has healthy clusters, but all are at their limit. */
  readonly because: 'unavailable' | 'full';
  /** Its clusters, sorted by name; for role `pinned` only that one. */
  readonly members: readonly ClusterEntry[];
}

export interface EligibleClusters {
  readonly as: GroupRole;
  readonly group: string;
  /** Sorted by name; empty if no cluster is eligible. */
  readonly candidates: readonly ClusterEntry[];
  /** Groups examined before, in order; empty if the first one has an eligible cluster. */
  readonly passed: readonly PassedGroup[];
}

export interface EligibilitySearch {
  readonly table: RoutingTable;
  readonly decision: GroupDecision;
  /** `routing.defaultRoutingGroup` */
  readonly defaultGroup: string;
  /** Clusters that already failed the request, with the error; null for none. */
  readonly excluded: ReadonlyMap<string, string> | null;
  readonly hasCapacity: HasCapacity;
}

const noClusters: readonly ClusterEntry[] = [];
const nothingPassed: readonly PassedGroup[] = [];

/**
 * Finds the eligible clusters of a request: those of the group that are active, HEALTHY and below their limit; then of
 * its fallbacks, in order; then of the default group; then, with `bestEffort`, the least unhealthy of the group
 * (docs/routing.md#fallbacks). Fallbacks of fallbacks are not examined, so that there is no loop.
 */
export function findEligible(search: EligibilitySearch): EligibleClusters {
  const { table, decision, excluded, hasCapacity } = search;
  const { group } = decision;
  if (decision.cluster !== null) return findPinned(search, decision.cluster);
  const members = table.groups.get(group);
  const healthy = routable(members, excluded);
  const policy = table.admission.groups.get(group);
  if (healthy.length > 0) {
    const open = withCapacity(healthy, hasCapacity);
    if (open.length > 0) return { as: 'group', group, candidates: open, passed: nothingPassed };
    // The request waits for capacity in the group.
    if (!spillsOver(policy, decision)) return { as: 'group', group, candidates: healthy, passed: nothingPassed };
  }
  return findElsewhere(search, policy, healthy);
}

/**
 * True if a healthy cluster of the group or of its fallbacks exists: the condition to leave the queue for unavailable
 * groups.
 */
export function isServed(search: EligibilitySearch): boolean {
  const { as, candidates } = findEligible(search);
  return candidates.length > 0 && as !== 'bestEffort';
}

function findPinned(search: EligibilitySearch, cluster: string): EligibleClusters {
  const { table, decision, excluded } = search;
  const { group } = decision;
  const pinned = table.clusters.get(cluster);
  if (pinned !== undefined && isRoutable(pinned, excluded))
    return { as: 'pinned', group, candidates: [pinned], passed: nothingPassed };
  const passed: PassedGroup[] = [
    { as: 'pinned', group: cluster, because: 'unavailable', members: pinned === undefined ? noClusters : [pinned] },
  ];
  return (decision.onUnavailable === 'fallback' ? findDefault(search, passed) : null) ?? noneEligible(group, passed);
}

/** The group has no eligible cluster. @param healthy its healthy clusters, all at their limit */
function findElsewhere(
  search: EligibilitySearch,
  policy: GroupPolicy | undefined,
  healthy: readonly ClusterEntry[],
): EligibleClusters {
  const { table, decision, defaultGroup, excluded, hasCapacity } = search;
  const { group } = decision;
  const passed: PassedGroup[] = [passing('group', group, healthy, table)];
  if (decision.onUnavailable === 'fallback') {
    let full: Omit<EligibleClusters, 'passed'> | null =
      healthy.length > 0 ? { as: 'group', group, candidates: healthy } : null;
    for (const name of policy?.fallbacks ?? []) {
      if (passed.some((other) => other.group === name)) continue;
      const members = routable(table.groups.get(name), excluded);
      const open = withCapacity(members, hasCapacity);
      if (open.length > 0) return { as: 'fallback', group: name, candidates: open, passed };
      if (members.length > 0) {
        const waiting: Omit<EligibleClusters, 'passed'> = { as: 'fallback', group: name, candidates: members };
        if (policy?.fallbackWhen !== 'full') return { ...waiting, passed };
        full ??= waiting;
      }
      passed.push(passing('fallback', name, members, table));
    }
    if (full !== null) return { ...full, passed };
    // If queries are queued for the group, the default group is only used if it is one of the fallbacks.
    const mayBeDefault = policy?.queue.whenUnavailable !== 'wait';
    const isNew = !passed.some((other) => other.group === defaultGroup);
    const byDefault = mayBeDefault && isNew ? findDefault(search, passed) : null;
    if (byDefault !== null) return byDefault;
  }
  if (policy?.bestEffort === true) {
    const candidates = leastBad(table.groups.get(group) ?? noClusters, excluded);
    if (candidates.length > 0) return { as: 'bestEffort', group, candidates, passed };
  }
  return noneEligible(group, passed);
}

/** @param passed receives the default group if it has no eligible cluster */
function findDefault(
  { table, defaultGroup, excluded, hasCapacity }: EligibilitySearch,
  passed: PassedGroup[],
): EligibleClusters | null {
  const healthy = routable(table.groups.get(defaultGroup), excluded);
  if (healthy.length > 0) {
    const open = withCapacity(healthy, hasCapacity);
    return { as: 'default', group: defaultGroup, candidates: open.length > 0 ? open : healthy, passed };
  }
  passed.push(passing('default', defaultGroup, healthy, table));
  return null;
}

function noneEligible(group: string, passed: readonly PassedGroup[]): EligibleClusters {
  return { as: 'group', group, candidates: noClusters, passed };
}

function passing(as: GroupRole, group: string, healthy: readonly ClusterEntry[], table: RoutingTable): PassedGroup {
  const because = healthy.length > 0 ? 'full' : 'unavailable';
  return { as, group, because, members: table.groups.get(group) ?? noClusters };
}

function spillsOver(policy: GroupPolicy | undefined, { onUnavailable }: GroupDecision): boolean {
  return policy?.fallbackWhen === 'full' && onUnavailable === 'fallback';
}

function isRoutable(cluster: ClusterEntry, excluded: ReadonlyMap<string, string> | null): boolean {
  return takesNewQueries(cluster) && excluded?.has(cluster.name) !== true;
}

/** Filters clusters that accept new queries. @param excluded names of clusters to ignore */
export function routable(
  members: readonly ClusterEntry[] | undefined,
  excluded: ReadonlyMap<string, string> | null,
): readonly ClusterEntry[] {
  if (members === undefined) return noClusters;
  // Nearly always all of them are: avoids a new list for each request.
  if (members.every((member) => isRoutable(member, excluded))) return members;
  return members.filter((member) => isRoutable(member, excluded));
}

function withCapacity(clusters: readonly ClusterEntry[], hasCapacity: HasCapacity): readonly ClusterEntry[] {
  const isOpen = ({ name, maxRunningQueries }: ClusterEntry) => maxRunningQueries === undefined || hasCapacity(name);
  return clusters.every(isOpen) ? clusters : clusters.filter(isOpen);
}

/** Unhealthy clusters that may still respond: unchecked ones; else the ones that were healthy last. */
function leastBad(
  members: readonly ClusterEntry[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ClusterEntry[] {
  const left = members.filter(({ name, active }) => active && excluded?.has(name) !== true);
  const pending = left.filter(({ health }) => health.status === 'PENDING');
  if (pending.length > 0) return pending;
  const last = Math.max(...left.map(healthyAt));
  return left.filter((cluster) => healthyAt(cluster) === last);
}

function healthyAt({ lastHealthyAt }: ClusterEntry): number {
  return lastHealthyAt ?? Number.NEGATIVE_INFINITY;
}

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
  readonly eligible: EligibleClusters;
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
      readonly eligible: EligibleClusters;
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
  hasCapacity: HasCapacity = unlimitedCapacity,
): ClusterChoice {
  const eligible = findEligible({ table, decision, defaultGroup, excluded, hasCapacity });
  const { as, candidates } = eligible;
  if (candidates.length === 0) return noCluster(eligible, excluded);
  const cluster = as === 'pinned' ? (candidates[0] as ClusterEntry) : pick(candidates, eligible.group);
  return {
    cluster,
    eligible,
    fallback: as === 'fallback' || as === 'default',
    steps: eligible.passed.length === 0 ? null : stepsTo(eligible, [cluster], excluded),
  };
}

function noCluster(eligible: EligibleClusters, excluded: ReadonlyMap<string, string> | null): NoCluster {
  const { passed } = eligible;
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
  return { cluster: null, eligible, notTaken: [...notTaken.values()], passed, pending };
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
