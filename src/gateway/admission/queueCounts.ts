import type { LeasedSlots } from '../../admission/leasedSlots.ts';

/**
 * Counts of queued submissions on all replicas: local ones, and those reported by the last heartbeats of others. A new
 * replica learns of the others with its first heartbeat, so that the limit may be exceeded by the arrivals of one
 * heartbeat.
 */
export class QueueCounts {
  readonly #ledger: Pick<LeasedSlots, 'setWaiting' | 'waitingElsewhere'>;
  readonly #waiting = new Map<string, number>();

  constructor(ledger: Pick<LeasedSlots, 'setWaiting' | 'waitingElsewhere'>) {
    this.#ledger = ledger;
  }

  /** Number of queued submissions of a counter. @param key as `groupQueueKey`, or of a limit */
  waiting(key: string): number {
    return (this.#waiting.get(key) ?? 0) + this.#ledger.waitingElsewhere(key);
  }

  /** Counts the beginning or end of a local wait. @param by 1 or -1 */
  count(key: string, by: 1 | -1): void {
    const count = (this.#waiting.get(key) ?? 0) + by;
    if (count === 0) this.#waiting.delete(key);
    else this.#waiting.set(key, count);
    // A counter without slots: only waiters are shared.
    this.#ledger.setWaiting({ key, limit: 0 }, count);
  }
}
