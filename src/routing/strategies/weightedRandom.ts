import type { Random } from '../../model/clock.ts';
import type { ClusterEntry } from '../routingTable.ts';
import type { Strategy, StrategyDependencies } from './strategy.ts';

export function weightedRandom({ random }: Pick<StrategyDependencies, 'random'>): Strategy {
  return { pick: (candidates) => pickByWeight(candidates, random) };
}

/** Picks one at random by weight; equal weights make it uniform. */
export function pickByWeight(candidates: readonly ClusterEntry[], random: Random): ClusterEntry {
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
