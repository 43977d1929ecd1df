import type { Random } from '../../model/clock.ts';
import { type ClusterLoad, type CountedSubmission, LocalLoad } from '../localLoad.ts';
import type { ClusterEntry } from '../routingTable.ts';
import type { PickRequest, Strategy, StrategyDependencies } from './strategy.ts';
import { pickByWeight } from './weightedRandom.ts';

/**
 * The cluster with the fewest of this user's queued queries, then of all queued, then of running queries; ties at random
 * by weight (docs/compatibility.md#the-query-count-router).
 */
export class LeastLoaded implements Strategy {
  readonly #random: Random;
  readonly #local: LocalLoad;

  constructor({ random, monotonic }: StrategyDependencies) {
    this.#random = random;
    this.#local = new LocalLoad(monotonic);
  }

  pick(candidates: readonly ClusterEntry[], { user }: PickRequest): ClusterEntry {
    const loads = this.#local.of(candidates, user);
    let best: ClusterEntry[] = [];
    let least: ClusterLoad | null = null;
    for (const [index, candidate] of candidates.entries()) {
      const load = loads[index] as ClusterLoad;
      const order = least === null ? -1 : compareLoads(load, least);
      if (order < 0) {
        best = [candidate];
        least = load;
      } else if (order === 0) best.push(candidate);
    }
    return pickByWeight(best, this.#random);
  }

  countSubmission({ name }: ClusterEntry, { user }: Pick<PickRequest, 'user'>): CountedSubmission {
    return this.#local.countSubmission(name, user);
  }

  retain(registered: { has(cluster: string): boolean }): void {
    this.#local.retain(registered);
  }
}

function compareLoads(a: ClusterLoad, b: ClusterLoad): number {
  return a.own - b.own || a.queued - b.queued || a.running - b.running;
}
