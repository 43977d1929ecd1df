import type { AttemptLimits } from './attemptLimit.ts';
import { FailureBuckets } from './failureBuckets.ts';
import { type LoginSource, nearNetwork, wideNetworks } from './loginSource.ts';

/** Failures of an address for all names, as a multiple of those for one name. */
const ADDRESS_FACTOR = 10;
/** Failures of a wider network, or of all that come by one peer, as a multiple of those of an address. */
const WIDE_FACTOR = 10;
/** Most networks remembered. */
const CAPACITY = 20_000;

/**
 * Bounds the failures that come from one place, whatever they are about: ten times `maxAttempts` at once from an address
 * (IPv6: from a /64), of which one is forgotten in each `window / maxAttempts`; ten times as many from an IPv6 /48, and
 * by one peer where every hop is trusted.
 */
export class SourceLimit {
  readonly #near: FailureBuckets;
  readonly #wide: FailureBuckets;

  constructor({ maxAttempts, window }: AttemptLimits) {
    const leakMs = window / maxAttempts;
    const capacity = maxAttempts * ADDRESS_FACTOR;
    this.#near = new FailureBuckets({ capacity, leakMs }, CAPACITY);
    this.#wide = new FailureBuckets({ capacity: capacity * WIDE_FACTOR, leakMs: leakMs / WIDE_FACTOR }, CAPACITY);
  }

  /** Milliseconds until the source may fail once more; 0: now. */
  wait(source: LoginSource, now: number): number {
    return Math.max(
      this.#near.wait(nearNetwork(source), now),
      ...wideNetworks(source).map((network) => this.#wide.wait(network, now)),
    );
  }

  /** Counts a failure, or with -1 takes one back. */
  add(source: LoginSource, failures: 1 | -1, now: number): void {
    this.#near.add(nearNetwork(source), failures, now);
    for (const network of wideNetworks(source)) this.#wide.add(network, failures, now);
  }
}
