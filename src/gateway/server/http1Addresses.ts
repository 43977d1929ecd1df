import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';

/** For how long an address is remembered after it was last needed. */
export const REMEMBERED_MS = 3_600_000;
/** Addresses that are remembered; the ones unused for the longest time go first. */
const MAX_ADDRESSES = 10_000;

/** Addresses of clients that need HTTP/1.1, remembered for an hour since they were last needed. */
export class Http1Addresses {
  readonly #until: LRUCache<string, number>;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#until = new LRUCache(growingTo(MAX_ADDRESSES));
  }

  /** Remembers an address. @returns whether it was not remembered before */
  add(address: string): boolean {
    const isNew = !this.has(address);
    this.#until.set(address, this.#clock.monotonic() + REMEMBERED_MS);
    return isNew;
  }

  /** True if it is remembered; where it is, for another hour. */
  has(address: string): boolean {
    const until = this.#until.get(address);
    if (until === undefined) return false;
    const now = this.#clock.monotonic();
    if (now >= until) {
      this.#until.delete(address);
      return false;
    }
    this.#until.set(address, now + REMEMBERED_MS);
    return true;
  }
}
