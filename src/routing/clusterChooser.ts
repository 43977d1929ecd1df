import { createHash, hash } from 'node:crypto';
import type { Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { firstHeader, type RawHeaders } from '../model/rawHeaders.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { RequestKey } from './admissionPolicy.ts';
import { type ClusterChoice, chooseCluster, type HasCapacity, unlimitedCapacity } from './clusterChoice.ts';
import type { GroupDecision } from './groupDecision.ts';
import { type ClusterLoad, type CountedSubmission, LocalLoad } from './localLoad.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';

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
        : this.#strategyOf(table, group).pick(this.#withTrials(candidates), request, () =>
            this.#affinityOf(table, group),
          );
    return chooseCluster(table, decision, this.#settings.defaultRoutingGroup, excluded, pick, hasCapacity);
  }

  /** Name of a group's strategy: of its `RoutingGroup`, else configured. */
  strategyOf({ admission }: RoutingTable, group: string): StrategyName {
    const { strategy, groupStrategies } = this.#settings;
    return admission.groups.get(group)?.strategy ?? groupStrategies.get(group) ?? strategy;
  }

  /** Counts a query that is sent to a cluster; null if its group's strategy does not use load. */
  countSubmission(table: RoutingTable, cluster: ClusterEntry, request: PickRequest): CountedSubmission | null {
    return this.#strategyOf(table, cluster.routingGroup).countSubmission?.(cluster, request) ?? null;
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

  #strategyOf(table: RoutingTable, group: string): Strategy {
    return this.#strategies[this.strategyOf(table, group)];
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
