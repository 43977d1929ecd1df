import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { MAX_COORDINATORS_PER_CLUSTER } from './knownCoordinators.ts';

/** Milliseconds after which a cluster may claim one more suffix: 360 an hour, more than any restarting cluster needs. */
const REFILL_MS = 10_000;
const MAX_CLUSTERS = 10_000;

/** Limit of new coordinators per cluster: a burst of 256, then one every 10 s. */
export class ClaimBudget {
  readonly #clock: Clock;
  readonly #clusters = new LRUCache<string, { left: number; at: number }>({ max: MAX_CLUSTERS });

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes one claim of a cluster; false where none is left. */
  take(cluster: string): boolean {
    const now = this.#clock.monotonic();
    let budget = this.#clusters.get(cluster);
    if (budget === undefined) {
      budget = { left: MAX_COORDINATORS_PER_CLUSTER, at: now };
      this.#clusters.set(cluster, budget);
    }
    budget.left = Math.min(MAX_COORDINATORS_PER_CLUSTER, budget.left + (now - budget.at) / REFILL_MS);
    budget.at = now;
    if (budget.left < 1) return false;
    budget.left -= 1;
    return true;
  }
}
