import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';

/** How many failed logins are let through. */
export interface AttemptLimits {
  /** Failures of one name from one address within the window; an address has ten times as many for all names. */
  readonly maxAttempts: number;
  /** Milliseconds. */
  readonly window: number;
}

interface Count {
  failures: number;
  /** End of the window, by the monotonic clock. */
  readonly until: number;
}

const CAPACITY = 50_000;
const ADDRESS_FACTOR = 10;
/** A name guessed at from many addresses; high, as a stranger can use it up to lock the user out for a window. */
const NAME_FACTOR = 20;

/**
 * Limits guessing of passwords: failures are counted for a name at an address, for an address and for a name, each in a
 * bounded table of this process. A login that succeeds forgets the failures of its name at its address.
 */
export class AttemptLimit {
  readonly #limits: AttemptLimits;
  readonly #clock: Clock;
  readonly #counts: LRUCache<string, Count>;

  constructor(limits: AttemptLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#counts = new LRUCache(growingTo(CAPACITY));
  }

  /**
   * Runs a check of a password, counted as an attempt before it starts, so that guesses sent at once count as well.
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS with the seconds to wait, without looking at the password
   */
  async guard<T>(
    name: string,
    address: string,
    check: () => Promise<T>,
    succeeded: (result: T) => boolean,
  ): Promise<T> {
    const { maxAttempts } = this.#limits;
    const keys = [
      [JSON.stringify(['at', name, address]), maxAttempts],
      [JSON.stringify(['address', address]), maxAttempts * ADDRESS_FACTOR],
      [JSON.stringify(['name', name]), maxAttempts * NAME_FACTOR],
    ] as const;
    const now = this.#clock.monotonic();
    for (const [key, most] of keys) {
      const count = this.#counts.get(key);
      if (count === undefined || count.until <= now || count.failures < most) continue;
      const wait = Math.max(1, Math.ceil((count.until - now) / 1000));
      throw new GatewayError('EG_TOO_MANY_ATTEMPTS', `Too many failed logins; try again in ${wait} s.`, {
        retryAfterSeconds: wait,
      });
    }
    for (const [key] of keys) this.#add(key, 1, now);
    let result: T;
    try {
      result = await check();
    } catch (error) {
      // A directory that is away says nothing about the password.
      for (const [key] of keys) this.#add(key, -1, now);
      throw error;
    }
    if (succeeded(result)) {
      this.#counts.delete(keys[0][0]);
      for (const [key] of keys.slice(1)) this.#add(key, -1, now);
    }
    return result;
  }

  #add(key: string, change: number, now: number): void {
    const count = this.#counts.get(key);
    if (count !== undefined && count.until > now) count.failures = Math.max(0, count.failures + change);
    else if (change > 0) this.#counts.set(key, { failures: change, until: now + this.#limits.window });
  }
}
