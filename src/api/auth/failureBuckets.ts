import { FailureTable } from './failureTable.ts';

/** Failures of one key: how many count at a time; they leak away evenly. */
interface Level {
  readonly level: number;
  /** Monotonic milliseconds. */
  readonly at: number;
}

/** How many failures a key may have at once, and the milliseconds in which one is forgotten. */
export interface BucketSize {
  readonly capacity: number;
  readonly leakMs: number;
}

/** Counts failures by key in leaky buckets, in bounded memory. */
export class FailureBuckets {
  readonly #size: BucketSize;
  readonly #levels: FailureTable<Level>;

  /** @param most most keys remembered of each kind ({@link FailureTable}) */
  constructor(size: BucketSize, most: number) {
    this.#size = size;
    this.#levels = new FailureTable(most);
  }

  /** Milliseconds until one more failure of the key has room; 0 where it has. */
  wait(key: string, now: number): number {
    const over = this.#levelOf(key, now) + 1 - this.#size.capacity;
    return over <= 0 ? 0 : over * this.#size.leakMs;
  }

  /** Counts failures; a negative number takes back what was counted too early. */
  add(key: string, failures: number, now: number): void {
    const level = Math.max(0, this.#levelOf(key, now) + failures);
    if (level === 0) this.#levels.delete(key);
    else this.#levels.set(key, { level, at: now }, level > this.#size.capacity / 4);
  }

  #levelOf(key: string, now: number): number {
    const level = this.#levels.get(key);
    return level === undefined ? 0 : Math.max(0, level.level - (now - level.at) / this.#size.leakMs);
  }
}
