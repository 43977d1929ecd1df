import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';
import { FailureBuckets } from './failureBuckets.ts';
import { FailureTable, keyOfParts } from './failureTable.ts';
import { type LoginSource, nearNetwork } from './loginSource.ts';
import { SourceLimit } from './sourceLimit.ts';

/** How many failed logins are let through (`authentication.loginLimit`). */
export interface AttemptLimits {
  /** Failures of one name from one address before the next one has to wait. */
  readonly maxAttempts: number;
  /** Milliseconds: the longest wait, and the time after it in which failures are forgotten. */
  readonly window: number;
}

/** Failures of a name from one address. */
interface Failures {
  readonly count: number;
  /** Monotonic milliseconds of the last one. */
  readonly at: number;
}

/** What became of an attempt, for a metric. */
export type AttemptResult = 'succeeded' | 'failed' | 'limited';

/** Called with every attempt. */
export type RecordAttempt = (name: string, source: LoginSource, result: AttemptResult) => void;

/** Most pairs of name and address remembered of each kind, and most of those that logged in. */
const CAPACITY = 50_000;
/** First wait in milliseconds; each further failure doubles it. */
const FIRST_WAIT_MS = 1000;
/** Failures of a name from everywhere after which an address without a login has one try at once in place of maxAttempts. */
const NAME_FACTOR = 20;
/** Time for which an address that logged in as a name is known for it, in milliseconds. */
const KNOWN_MS = 7 * 86_400_000;

/**
 * Limits guessing of passwords without locking anybody out. Failures are counted
 * - for a name at an address: after `maxAttempts` each further attempt waits, 1 s at first and twice as long each time;
 * - for an address over all names ({@link SourceLimit}), which binds only names that never logged in from there;
 * - for a name over all addresses: while there are many, addresses that never logged in as that name have one attempt
 *   before they wait. Nobody else waits: a name is never locked.
 * Attempts that have to wait are refused without looking at the password, so that right ones do not stand out. Counts
 * are of this process and in bounded memory.
 */
export class AttemptLimit {
  readonly #limits: AttemptLimits;
  readonly #clock: Clock;
  readonly #record: RecordAttempt;
  readonly #pairs = new FailureTable<Failures>(CAPACITY);
  readonly #names: FailureBuckets;
  readonly #sources: SourceLimit;
  readonly #successes: LRUCache<string, true>;

  constructor(limits: AttemptLimits, clock: Clock, record: RecordAttempt) {
    this.#limits = limits;
    this.#clock = clock;
    this.#record = record;
    const capacity = limits.maxAttempts * NAME_FACTOR;
    this.#names = new FailureBuckets({ capacity, leakMs: limits.window / capacity }, CAPACITY);
    this.#sources = new SourceLimit(limits);
    const perf = { now: () => clock.monotonic() };
    this.#successes = new LRUCache({ ...growingTo(CAPACITY), ttl: KNOWN_MS, ttlResolution: 0, perf });
  }

  /**
   * Runs a check of a password, counted as a failure before it starts, so that guesses sent at once count as well.
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS with the seconds to wait, without looking at the password
   */
  async guard<T>(
    name: string,
    source: LoginSource,
    check: () => Promise<T>,
    succeeded: (result: T) => boolean,
  ): Promise<T> {
    const now = this.#clock.monotonic();
    const pair = keyOfParts(name, nearNetwork(source));
    const nameKey = keyOfParts(name);
    const wait = this.#wait(pair, nameKey, source, now);
    if (wait > 0) {
      this.#record(name, source, 'limited');
      throw tooManyAttempts(wait);
    }
    const before = this.#failuresOf(pair, now);
    this.#setFailures(pair, { count: before.count + 1, at: now });
    this.#names.add(nameKey, 1, now);
    this.#sources.add(source, 1, now);
    const takeBack = () => {
      const { count, at } = this.#failuresOf(pair, now);
      this.#setFailures(pair, { count: Math.max(0, count - 1), at });
      this.#names.add(nameKey, -1, now);
      this.#sources.add(source, -1, now);
    };
    let result: T;
    try {
      result = await check();
    } catch (error) {
      // A directory that is unavailable says nothing about the password.
      takeBack();
      throw error;
    }
    const isRight = succeeded(result);
    this.#record(name, source, isRight ? 'succeeded' : 'failed');
    if (isRight) {
      takeBack();
      this.#pairs.delete(pair);
      this.#successes.set(pair, true);
    }
    return result;
  }

  #wait(pair: string, nameKey: string, source: LoginSource, now: number): number {
    const { count, at } = this.#failuresOf(pair, now);
    const isKnown = this.#successes.has(pair);
    const isGuessedAt = !isKnown && this.#names.wait(nameKey, now) > 0;
    const own = at + this.#delay(count, isGuessedAt ? 1 : this.#limits.maxAttempts) - now;
    return Math.max(0, own, isKnown ? 0 : this.#sources.wait(source, now));
  }

  #delay(count: number, atOnce: number): number {
    return count < atOnce ? 0 : Math.min(this.#limits.window, FIRST_WAIT_MS * 2 ** Math.min(40, count - atOnce));
  }

  #failuresOf(pair: string, now: number): Failures {
    const failures = this.#pairs.get(pair);
    if (failures === undefined) return { count: 0, at: now };
    const { window, maxAttempts } = this.#limits;
    return now - failures.at > this.#delay(failures.count, maxAttempts) + window ? { count: 0, at: now } : failures;
  }

  #setFailures(pair: string, failures: Failures): void {
    if (failures.count === 0) this.#pairs.delete(pair);
    else this.#pairs.set(pair, failures, failures.count >= this.#limits.maxAttempts / 2);
  }
}

/** The refusal of an attempt that has to wait. */
export function tooManyAttempts(waitMs: number): GatewayError {
  const seconds = Math.max(1, Math.ceil(waitMs / 1000));
  return new GatewayError('EG_TOO_MANY_ATTEMPTS', `Too many failed logins; try again in ${seconds} s.`, {
    retryAfterSeconds: seconds,
  });
}
