import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { EndedSessionRepository } from '../../store/endedSessionRepository.ts';

const CAPACITY = 100_000;

/** Time that "not revoked" is believed without asking the store again, in milliseconds. */
const BELIEVED_MS = 5_000;

/**
 * Sessions that were ended, and one-time values that were used. Kept in memory (the newest 100,000) and, where there is
 * a store, in the database, so that other replicas learn of it within 5 s. While the database is unavailable each replica
 * knows its own.
 */
export class Revocations {
  readonly #revoked: LRUCache<string, true>;
  readonly #good: LRUCache<string, true>;
  readonly #store: EndedSessionRepository | null;
  readonly #clock: Clock;
  readonly #logger: Logger;

  /** @param store null: ended sessions are known to this process only */
  constructor(store: EndedSessionRepository | null, clock: Clock, logger: Logger) {
    const perf = { now: () => clock.monotonic() };
    this.#revoked = new LRUCache({ ...growingTo(CAPACITY), perf, ttl: 1, ttlResolution: 0 });
    this.#good = new LRUCache({ ...growingTo(CAPACITY), perf, ttl: BELIEVED_MS, ttlResolution: 0 });
    this.#store = store;
    this.#clock = clock;
    this.#logger = logger;
  }

  /**
   * Ends an id.
   * @param until when it would have run out by itself, milliseconds since 1970
   * @returns false when it was ended before: a one-time value that comes a second time
   */
  async revoke(id: string, until: number): Promise<boolean> {
    const ttl = until - this.#clock.now();
    if (ttl <= 0) return false;
    const first = !this.#revoked.has(id);
    this.#revoked.set(id, true, { ttl });
    this.#good.delete(id);
    if (!first || this.#store === null) return first;
    try {
      return await this.#store.add(id, until);
    } catch (err) {
      this.#logger.warn({ err }, 'an ended session could not be stored: other replicas take it until it runs out');
      return first;
    }
  }

  async isRevoked(id: string): Promise<boolean> {
    if (this.#revoked.has(id)) return true;
    if (this.#store === null || this.#good.has(id)) return false;
    try {
      const isRevoked = await this.#store.has(id);
      if (!isRevoked) this.#good.set(id, true);
      return isRevoked;
    } catch {
      // The data plane's rule holds here as well: the API does not stop because the database is unavailable.
      return false;
    }
  }
}
