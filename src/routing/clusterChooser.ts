import { createHash, hash } from 'node:crypto';
import type { Random } from '../model/clock.ts';
import { firstHeader, type RawHeaders } from '../model/http.ts';
import type { ProductNames } from '../model/names.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { GroupPolicy, RequestKey } from './admissionPolicy.ts';
import type { GroupDecision } from './groupRouter.ts';
import { type ClusterLoad, type CountedSubmission, LocalLoad } from './localLoad.ts';
import { type ClusterEntry, isAvailable, type RoutingTable } from './routingTable.ts';
import {
  type ChoiceStep,
  MAX_CANDIDATES,
  reasonOf,
  type StoredChoice,
  stepsTo,
  storedCandidates,
} from './storedDecision.ts';

/**
 * Picks the same cluster for the same text, on every replica and in any order of the candidates; only texts of a
 * removed cluster move (rendezvous hashing).
 */
export function pickByHash(candidates: readonly ClusterEntry[], text: string): ClusterEntry {
  const scored = candidates.map((cluster) => ({
    cluster,
    score: createHash('sha256').update(`${text} ${cluster.name}`).digest('hex'),
  }));
  return scored.reduce((best, one) => (one.score > best.score ? one : best)).cluster;
}

/** Exclusive upper bound of hash values. */
const RANGE = 2 ** 48;

/**
 * Score of a cluster for a text: the greatest wins (weighted rendezvous hashing). Equal on every replica; each cluster
 * has the greatest score for a share of texts in proportion to its weight, and an added or removed cluster moves no
 * text between two others.
 */
export function weightedScore({ name }: ClusterEntry, text: string, weight: number): number {
  if (weight <= 0) return 0;
  const value = hash('sha256', `${text} ${name}`, 'buffer').readUIntBE(0, 6);
  return weight / -Math.log((value + 0.5) / RANGE);
}

export interface KeyedRequest {
  /** Null if unknown. */
  readonly user: string | null;
  readonly headers: RawHeaders;
}

/**
 * The value of a request's key (docs/routing.md#affinity), or null. A session consists of user, source, client info and
 * trace token.
 */
export function keyValue({ user, headers }: KeyedRequest, key: RequestKey, names: ProductNames): string | null {
  const header = (suffix: string) => firstHeader(headers, names.headerKey(suffix));
  switch (key.by) {
    case 'user':
      return user;
    case 'source':
      return header('Source') ?? null;
    case 'session': {
      const parts = [user, header('Source'), header('Client-Info'), header('Trace-Token')];
      return parts.every((part) => part == null) ? null : JSON.stringify(parts);
    }
    case 'header':
      return firstHeader(headers, names.ownHeader(key.header)) ?? null;
  }
}

export type PickRequest = KeyedRequest;

/** Chooses a cluster of a group; one instance serves all groups that are configured with it. */
export interface Strategy {
  /**
   * Picks the cluster of a request, synchronously and without exceptions.
   * @param candidates eligible clusters of the group, sorted by name; at least one
   * @param affinity affinity key of the group, for strategies that use it
   */
  pick(candidates: readonly ClusterEntry[], request: PickRequest, affinity: () => RequestKey): ClusterEntry;
  /** Counts a query that is sent to a cluster; absent for strategies that do not use load. */
  countSubmission?(cluster: ClusterEntry, request: PickRequest): CountedSubmission;
  /** Removes clusters that are not registered any more; absent for strategies without state. */
  retain?(registered: { has(cluster: string): boolean }): void;
}

/** A cluster receives this multiple of its share of all queries before keys move elsewhere. */
const LOAD_FACTOR = 1.25;
/** Queries that a cluster receives regardless of its share: such a small load is typical for one user's dashboard. */
const FREE_QUERIES = 4;

/**
 * Creates all strategies; a name of `src/model/strategies.ts` without one does not compile.
 * @param monotonic milliseconds that never go back
 */
export function makeStrategies(
  random: Random,
  monotonic: () => number,
  names: ProductNames,
): Readonly<Record<StrategyName, Strategy>> {
  const counts = new LocalLoad(monotonic);
  const keyedCounts = new LocalLoad(monotonic);
  return {
    weightedRandom: { pick: (candidates) => pickByWeight(candidates, random) },
    // Ties at random by weight (docs/compatibility.md#the-query-count-router).
    leastLoaded: {
      pick: (candidates, { user }) => pickByWeight(leastLoadedOf(candidates, counts.of(candidates, user)), random),
      countSubmission: ({ name }, { user }) => counts.countSubmission(name, user),
      retain: (registered) => counts.retain(registered),
    },
    // Requests without the key are spread by weight (docs/routing.md#affinity).
    affinity: {
      pick(candidates, request, affinity) {
        const key = keyValue(request, affinity(), names);
        return key === null ? pickByWeight(candidates, random) : pickForKey(key, candidates, keyedCounts);
      },
      countSubmission: ({ name }) => keyedCounts.countSubmission(name, null),
      retain: (registered) => keyedCounts.retain(registered),
    },
  };
}

/** Picks one at random by weight; equal weights make it uniform. */
function pickByWeight(candidates: readonly ClusterEntry[], random: Random): ClusterEntry {
  const last = candidates.at(-1) as ClusterEntry;
  if (candidates.length === 1) return last;
  let total = 0;
  for (const { weight } of candidates) total += weight;
  // If all weights are 0, the choice is uniform.
  let rest = random() * (total === 0 ? candidates.length : total);
  for (const candidate of candidates) {
    rest -= total === 0 ? 1 : candidate.weight;
    if (rest < 0) return candidate;
  }
  return last;
}

/** The clusters with the fewest of this user's queued queries, then of all queued, then of running queries. */
function leastLoadedOf(candidates: readonly ClusterEntry[], loads: readonly ClusterLoad[]): readonly ClusterEntry[] {
  let best: ClusterEntry[] = [];
  let least: ClusterLoad | null = null;
  for (const [index, candidate] of candidates.entries()) {
    const load = loads[index] as ClusterLoad;
    const order: number =
      least === null ? -1 : load.own - least.own || load.queued - least.queued || load.running - least.running;
    if (order < 0) {
      best = [candidate];
      least = load;
    } else if (order === 0) best.push(candidate);
  }
  return best;
}

/**
 * The same cluster for the same key, up to the bound of its load; then the next one in the order of the key: weighted
 * rendezvous hashing, with bounded loads as in Mirrokni, Thorup and Zadimoghaddam, "Consistent Hashing with Bounded Loads".
 */
function pickForKey(key: string, candidates: readonly ClusterEntry[], counts: LocalLoad): ClusterEntry {
  const loads = counts.of(candidates, null).map(({ queued, running }) => queued + running);
  const load = loads.reduce((total, one) => total + one, 0);
  const totalWeight = candidates.reduce((total, { weight }) => total + weight, 0);
  let best = candidates[0] as ClusterEntry;
  let highest = -1;
  for (const [index, cluster] of candidates.entries()) {
    // If all weights are 0, they count as equal.
    const weight = totalWeight === 0 ? 1 : cluster.weight;
    const share = weight / (totalWeight === 0 ? candidates.length : totalWeight);
    const bound = share === 0 ? 0 : Math.max(FREE_QUERIES, Math.ceil(LOAD_FACTOR * (load + 1) * share));
    if ((loads[index] as number) >= bound) continue;
    const score = weightedScore(cluster, key, weight);
    if (score <= highest) continue;
    best = cluster;
    highest = score;
  }
  return best;
}

export interface ChoiceSettings {
  /** `routing.defaultRoutingGroup` */
  readonly defaultRoutingGroup: string;
  /** `routing.strategy` */
  readonly strategy: StrategyName;
  /** `routing.groups.{name}.strategy` */
  readonly groupStrategies: ReadonlyMap<string, StrategyName>;
  /** `routing.affinity.by` */
  readonly affinity: RequestKey;
  /** `routing.groups.{name}.affinity.by` */
  readonly groupAffinities: ReadonlyMap<string, RequestKey>;
}

const TRIAL_SHARE = 0.1;

/** Chooses clusters by the strategy of their group, and counts submissions if the strategy needs load. */
export class ClusterChooser {
  readonly #settings: ChoiceSettings;
  readonly #strategies: Readonly<Record<StrategyName, Strategy>>;
  readonly #hasCapacity: HasCapacity;
  readonly #random: Random;
  /** Texts of candidates by table and group: the same for thousands of queries. */
  readonly #texts = new WeakMap<RoutingTable, Map<string, string>>();

  /**
   * @param monotonic milliseconds that never go back
   * @param hasCapacity returns true if a cluster with a limit has capacity for one more query
   */
  constructor(
    settings: ChoiceSettings,
    random: Random,
    monotonic: () => number,
    names: ProductNames,
    hasCapacity: HasCapacity = unlimitedCapacity,
  ) {
    this.#settings = settings;
    this.#strategies = makeStrategies(random, monotonic, names);
    this.#hasCapacity = hasCapacity;
    this.#random = random;
  }

  /**
   * Chooses a cluster for a request.
   * @param request the client's request
   * @param excluded clusters that already failed this request, with the error; null for none
   * @param login hash of the login that the request belongs to, which decides in place of the strategy; null for none
   * @param hasCapacity narrows to clusters where the request has a slot
   */
  choose(
    table: RoutingTable,
    decision: GroupDecision,
    request: PickRequest,
    excluded: ReadonlyMap<string, string> | null,
    login: string | null = null,
    hasCapacity: HasCapacity = this.#hasCapacity,
  ): ClusterChoice {
    const pick = (candidates: readonly ClusterEntry[], group: string) =>
      login !== null
        ? pickByHash(candidates, login)
        : this.#strategies[this.strategyOf(table, group)].pick(this.#withTrials(candidates), request, () =>
            this.#affinityOf(table, group),
          );
    const { defaultRoutingGroup } = this.#settings;
    return chooseCluster(table, decision, defaultRoutingGroup, excluded, pick, hasCapacity, request.user);
  }

  /** Name of a group's strategy: of its `RoutingGroup`, else configured. */
  strategyOf({ admission }: RoutingTable, group: string): StrategyName {
    const { strategy, groupStrategies } = this.#settings;
    return admission.groups.get(group)?.strategy ?? groupStrategies.get(group) ?? strategy;
  }

  /** Returns the current candidates of a query for storage. */
  toStored(
    table: RoutingTable,
    { eligible, cluster }: ClusterChoice,
    excluded: ReadonlyMap<string, string> | null,
  ): StoredChoice {
    const { as, group, candidates, passed } = eligible;
    const members = as === 'group' ? (table.groups.get(group) ?? noClusters) : noClusters;
    const picker = as === 'pinned' ? 'rule' : candidates.length === 1 ? 'only' : this.strategyOf(table, group);
    const strategy = cluster === null ? null : picker;
    // Full clusters differ between queries.
    let isCommon = strategy !== null && as === 'group' && passed.length === 0 && excluded === null;
    if (table.splits.size > 0) isCommon = false;
    if (members.length > MAX_CANDIDATES) isCommon = false;
    for (const { maxRunningQueries } of members) isCommon &&= maxRunningQueries === undefined;
    const texts = this.#texts.get(table) ?? new Map<string, string>();
    this.#texts.set(table, texts);
    const text =
      (isCommon ? texts.get(group) : undefined) ?? JSON.stringify(storedCandidates(table, eligible, cluster, excluded));
    if (isCommon) texts.set(group, text);
    return { strategy, candidates: text };
  }

  /** Counts a query that is sent to a cluster; null if its group's strategy does not use load. */
  countSubmission(table: RoutingTable, cluster: ClusterEntry, request: PickRequest): CountedSubmission | null {
    return this.#strategies[this.strategyOf(table, cluster.routingGroup)].countSubmission?.(cluster, request) ?? null;
  }

  /** Removes clusters that are not registered any more. */
  sweep(table: RoutingTable): void {
    for (const strategy of Object.values(this.#strategies)) strategy.retain?.(table.clusters);
  }

  #withTrials(candidates: readonly ClusterEntry[]): readonly ClusterEntry[] {
    if (!candidates.some(isOnTrial)) return candidates;
    const chosen = candidates.filter((cluster) => !isOnTrial(cluster) || this.#random() < TRIAL_SHARE);
    return chosen.length === 0 ? candidates : chosen;
  }

  /** Affinity key of a group, from the source that states its strategy. */
  #affinityOf({ admission }: RoutingTable, group: string): RequestKey {
    const { affinity, groupAffinities } = this.#settings;
    const policy = admission.groups.get(group);
    return policy?.strategy == null ? (groupAffinities.get(group) ?? affinity) : policy.affinity;
  }
}

function isOnTrial({ health }: ClusterEntry): boolean {
  return health.ejection === 'trial';
}

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
  /** User of the request, for splits; left out: not known. */
  readonly user?: string | null;
}

const noClusters: readonly ClusterEntry[] = [];
const nothingPassed: readonly PassedGroup[] = [];

/**
 * Finds the eligible clusters of a request: those of the group that take new queries and are below their limit; then of
 * its fallbacks, in order; then of the default group; then, with `bestEffort`, the least unhealthy of the group
 * (docs/routing.md#fallbacks). Fallbacks of fallbacks are not examined, so that there is no loop.
 */
export function findEligible(search: EligibilitySearch): EligibleClusters {
  const { table, decision, excluded, hasCapacity } = search;
  const { group } = decision;
  if (decision.cluster !== null) return findPinned(search, decision.cluster);
  const members = table.groups.get(group);
  const healthy = table.splits.size === 0 ? routable(members, excluded) : healthyOf(search, group);
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
  if (pinned !== undefined && isAvailable(pinned) && excluded?.has(cluster) !== true)
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
      const members = healthyOf(search, name);
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
function findDefault(search: EligibilitySearch, passed: PassedGroup[]): EligibleClusters | null {
  const { table, defaultGroup, hasCapacity } = search;
  const healthy = healthyOf(search, defaultGroup);
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
  const { name, active, health, rolloutOnly } = cluster;
  return active && health.status === 'HEALTHY' && rolloutOnly !== true && excluded?.has(name) !== true;
}

/** Filters clusters that accept new queries. @param excluded names of clusters to ignore */
export function routable(
  members: readonly ClusterEntry[] | undefined,
  excluded: ReadonlyMap<string, string> | null,
): readonly ClusterEntry[] {
  if (members === undefined) return noClusters;
  for (const member of members) {
    if (!isRoutable(member, excluded)) return members.filter((each) => isRoutable(each, excluded));
  }
  // Nearly always all of them are: avoids a new list for each request.
  return members;
}

/**
 * Clusters of a group that accept new queries of a request. Of a group with a split, the candidate replaces stable for its share of
 * the users: equal on every replica, and a user who has it keeps it while the weight grows.
 */
function healthyOf({ table, excluded, user }: EligibilitySearch, group: string): readonly ClusterEntry[] {
  const healthy = routable(table.groups.get(group), excluded);
  const split = table.splits.get(group);
  const candidate = split === undefined ? undefined : table.clusters.get(split.candidate);
  if (split === undefined || candidate === undefined || candidate.rolloutOnly !== true) return healthy;
  if (!isAvailable(candidate) || excluded?.has(candidate.name) === true) return healthy;
  const { rollout, stable, weight } = split;
  if (weight < 100 && (user == null || percentile(user, rollout) >= weight)) return healthy;
  const others = healthy.filter(({ name }) => name !== stable);
  if (others.length === healthy.length && weight < 100) return healthy;
  return [...others, candidate].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Place of a user among 100 % of the users of a rollout. */
function percentile(user: string, rollout: string): number {
  return (hash('sha256', `${rollout} ${user}`, 'buffer').readUIntBE(0, 6) / RANGE) * 100;
}

function withCapacity(clusters: readonly ClusterEntry[], hasCapacity: HasCapacity): readonly ClusterEntry[] {
  for (const { name, maxRunningQueries } of clusters) {
    if (maxRunningQueries === undefined || hasCapacity(name)) continue;
    return clusters.filter((each) => each.maxRunningQueries === undefined || hasCapacity(each.name));
  }
  return clusters;
}

/** Unhealthy clusters that may still respond: unchecked ones; else the ones that were healthy last. */
function leastBad(
  members: readonly ClusterEntry[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ClusterEntry[] {
  const left = members.filter(
    ({ name, active, rolloutOnly }) => active && rolloutOnly !== true && excluded?.has(name) !== true,
  );
  const pending = left.filter(({ health }) => health.status === 'PENDING');
  if (pending.length > 0) return pending;
  const last = Math.max(...left.map(healthyAt));
  return left.filter((cluster) => healthyAt(cluster) === last);
}

function healthyAt({ lastHealthyAt }: ClusterEntry): number {
  return lastHealthyAt ?? Number.NEGATIVE_INFINITY;
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
 * @param user of the request, for splits; null: not known
 */
export function chooseCluster(
  table: RoutingTable,
  decision: GroupDecision,
  defaultGroup: string,
  excluded: ReadonlyMap<string, string> | null,
  pick: PickCluster,
  hasCapacity: HasCapacity = unlimitedCapacity,
  user: string | null = null,
): ClusterChoice {
  const eligible = findEligible({ table, decision, defaultGroup, excluded, hasCapacity, user });
  const { as, candidates } = eligible;
  if (candidates.length === 0) return noCluster(eligible, excluded);
  const [first] = candidates as readonly [ClusterEntry];
  const cluster = candidates.length === 1 ? first : pick(candidates, eligible.group);
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
