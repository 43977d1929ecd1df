import type { LeasedSlots } from '../../admission/leasedSlots.ts';

/**
 * How many submissions wait, on all replicas: those here, and those that others reported in their last beats. A replica that
 * begins to count hears of the others with its first beat, so that as many more may wait as come within a beat.
 */
export class QueueCounts {
  readonly #ledger: Pick<LeasedSlots, 'setWaiting' | 'waitingElsewhere'>;
  readonly #waiting = new Map<string, number>();

  constructor(ledger: Pick<LeasedSlots, 'setWaiting' | 'waitingElsewhere'>) {
    this.#ledger = ledger;
  }

  /** Submissions that wait by a counter. @param key as `groupQueueKey`, or of a limit */
  waiting(key: string): number {
    return (this.#waiting.get(key) ?? 0) + this.#ledger.waitingElsewhere(key);
  }

  /** Counts one that begins to wait here, or waits no more. @param by 1 or -1 */
  count(key: string, by: 1 | -1): void {
    const count = (this.#waiting.get(key) ?? 0) + by;
    if (count === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, count);
    // A counter without slots: only what waits is shared.
    this.#ledger.setWaiting({ key, limit: 0 }, count);
  }
}
