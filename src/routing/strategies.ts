import type { Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { RequestKey } from './admissionPolicy.ts';
import { type ClusterLoad, type CountedSubmission, LocalLoad } from './localLoad.ts';
import { weightedScore } from './rendezvous.ts';
import { type KeyedRequest, keyValue } from './requestKey.ts';
import type { ClusterEntry } from './routingTable.ts';

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
