import type { StrategyName } from '../../model/strategies.ts';
import { LeastLoaded } from './leastLoaded.ts';
import type { Strategy, StrategyParts } from './strategy.ts';
import { weightedRandom } from './weightedRandom.ts';

/** Makes every strategy; a name of `src/model/strategies.ts` without one does not compile. */
export function makeStrategies(parts: StrategyParts): Readonly<Record<StrategyName, Strategy>> {
  return { weightedRandom: weightedRandom(parts), leastLoaded: new LeastLoaded(parts) };
}
