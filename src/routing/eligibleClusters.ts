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
  readonly hasRoom: HasCapacity;
}

const noClusters: readonly ClusterEntry[] = [];
const nothingPassed: readonly PassedGroup[] = [];

/**
 * Finds the eligible clusters of a request: those of the group that are active, HEALTHY and below their limit; then of
 * its fallbacks, in order; then of the default group; then, with `bestEffort`, the least unhealthy of the group
 * (docs/routing.md#fallbacks). Fallbacks of fallbacks are not examined, so that there is no loop.
 */
export function findEligible(search: EligibilitySearch): EligibleClusters {
  const { table, decision, excluded, hasRoom } = search;
  const { group } = decision;
  if (decision.cluster !== null) return findPinned(search, decision.cluster);
  const members = table.groups.get(group);
  const healthy = routable(members, excluded);
  const policy = table.admission.groups.get(group);
  if (healthy.length > 0) {
    const open = withCapacity(healthy, hasRoom);
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
  return (decision.onUnavailable === 'fallback' ? findDefault(search, passed) : null) ?? nobody(group, passed);
}

/** The group has no eligible cluster. @param healthy its healthy clusters, all at their limit */
function findElsewhere(
  search: EligibilitySearch,
  policy: GroupPolicy | undefined,
  healthy: readonly ClusterEntry[],
): EligibleClusters {
  const { table, decision, defaultGroup, excluded, hasRoom } = search;
  const { group } = decision;
  const passed: PassedGroup[] = [passing('group', group, healthy, table)];
  if (decision.onUnavailable === 'fallback') {
    let full: Omit<EligibleClusters, 'passed'> | null =
      healthy.length > 0 ? { as: 'group', group, candidates: healthy } : null;
    for (const name of policy?.fallbacks ?? []) {
      if (passed.some((other) => other.group === name)) continue;
      const members = routable(table.groups.get(name), excluded);
      const open = withCapacity(members, hasRoom);
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
  return nobody(group, passed);
}

/** @param passed receives the default group if it has no eligible cluster */
function findDefault(
  { table, defaultGroup, excluded, hasRoom }: EligibilitySearch,
  passed: PassedGroup[],
): EligibleClusters | null {
  const healthy = routable(table.groups.get(defaultGroup), excluded);
  if (healthy.length > 0) {
    const open = withCapacity(healthy, hasRoom);
    return { as: 'default', group: defaultGroup, candidates: open.length > 0 ? open : healthy, passed };
  }
  passed.push(passing('default', defaultGroup, healthy, table));
  return null;
}

function nobody(group: string, passed: readonly PassedGroup[]): EligibleClusters {
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

function withCapacity(clusters: readonly ClusterEntry[], hasRoom: HasCapacity): readonly ClusterEntry[] {
  const isOpen = ({ name, maxRunningQueries }: ClusterEntry) => maxRunningQueries === undefined || hasRoom(name);
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
