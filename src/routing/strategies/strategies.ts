import type { StrategyName } from '../../model/strategies.ts';
import { AffinityStrategy } from './affinity.ts';
import { LeastLoaded } from './leastLoaded.ts';
import type { Strategy, StrategyDependencies } from './strategy.ts';
import { weightedRandom } from './weightedRandom.ts';

/** Creates all strategies; a name of `src/model/strategies.ts` without one does not compile. */
export function makeStrategies(dependencies: StrategyDependencies): Readonly<Record<StrategyName, Strategy>> {
  return {
    weightedRandom: weightedRandom(dependencies),
    leastLoaded: new LeastLoaded(dependencies),
    affinity: new AffinityStrategy(dependencies),
  };
}
