import type { Random } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestKey } from '../admissionPolicy.ts';
import { type CountedSubmission, LocalLoad } from '../localLoad.ts';
import { weightedScore } from '../rendezvous.ts';
import { keyValue } from '../requestKey.ts';
import type { ClusterEntry } from '../routingTable.ts';
import type { PickRequest, Strategy, StrategyDependencies } from './strategy.ts';
import { pickByWeight } from './weightedRandom.ts';

/** A cluster receives this multiple of its share of all queries before keys move elsewhere. */
export const LOAD_FACTOR = 1.25;
/** Queries that a cluster receives regardless of its share: such a small load is typical for one user's dashboard. */
export const FREE_QUERIES = 4;

/**
 * The same cluster for the same key, up to the bound of its load; then the next one in the order of the key
 * (docs/routing.md#affinity): weighted rendezvous hashing, with bounded loads as in Mirrokni, Thorup and Zadimoghaddam,
 * "Consistent Hashing with Bounded Loads". Requests without the key are spread by weight.
 */
export class AffinityStrategy implements Strategy {
  readonly #random: Random;
  readonly #names: ProductNames;
  readonly #local: LocalLoad;

  constructor({ random, monotonic, names }: StrategyDependencies) {
    this.#random = random;
    this.#names = names;
    this.#local = new LocalLoad(monotonic);
  }

  pick(candidates: readonly ClusterEntry[], request: PickRequest, affinity: () => RequestKey): ClusterEntry {
    const key = keyValue(request, affinity(), this.#names);
    return key === null ? pickByWeight(candidates, this.#random) : this.#pickFor(key, candidates);
  }

  countSubmission({ name }: ClusterEntry): CountedSubmission {
    return this.#local.countSubmission(name, null);
  }

  retain(registered: { has(cluster: string): boolean }): void {
    this.#local.retain(registered);
  }

  #pickFor(key: string, candidates: readonly ClusterEntry[]): ClusterEntry {
    const loads = this.#local.of(candidates, null).map(({ queued, running }) => queued + running);
    if (candidates.length === 1) return candidates[0] as ClusterEntry;
    const load = sum(loads);
    const weights = candidates.map(({ weight }) => weight);
    const totalWeight = sum(weights);
    let best = candidates[0] as ClusterEntry;
    let highest = -1;
    for (const [index, cluster] of candidates.entries()) {
      // If all weights are 0, they count as equal.
      const weight = totalWeight === 0 ? 1 : (weights[index] as number);
      const share = weight / (totalWeight === 0 ? candidates.length : totalWeight);
      if ((loads[index] as number) >= boundOf(load, share)) continue;
      const score = weightedScore(cluster, key, weight);
      if (score <= highest) continue;
      best = cluster;
      highest = score;
    }
    return best;
  }
}

/**
 * Upper bound of a cluster's queries before it receives another one.
 * @param load queries on all candidates
 * @param share its part of their weight
 */
export function boundOf(load: number, share: number): number {
  if (share === 0) return 0;
  return Math.max(FREE_QUERIES, Math.ceil(LOAD_FACTOR * (load + 1) * share));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
