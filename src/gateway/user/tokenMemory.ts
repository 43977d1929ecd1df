import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';

/** What came of asking about a token: the answer, and for how long it is remembered. */
export interface Remembered<Answer> {
  readonly answer: Answer;
  readonly forMs: number;
}

/** Limits of what is remembered and asked. */
export interface TokenMemoryLimits {
  /** Answers kept at most; the ones unused for the longest time go first. */
  readonly entries: number;
  /** Tokens asked about at a time. */
  readonly inFlight: number;
}

/**
 * Answers about tokens: one question a token at a time, answers remembered for their time. Tokens are held as hashes only.
 */
export class TokenMemory<Answer extends object> {
  readonly #entries: LRUCache<string, { readonly answer: Answer; readonly until: number }>;
  readonly #pending = new Map<string, Promise<Answer>>();
  readonly #limits: TokenMemoryLimits;
  readonly #clock: Clock;

  constructor(limits: TokenMemoryLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
    this.#entries = new LRUCache({ max: limits.entries });
  }

  /**
   * The answer about a token: at once when it is remembered.
   * @param ask asks; must not reject
   * @param overloaded the answer, not remembered, when too many are asked already
   */
  get(token: string, ask: () => Promise<Remembered<Answer>>, overloaded: Answer): Answer | Promise<Answer> {
    const key = createHash('sha256').update(token).digest('base64');
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      if (this.#clock.monotonic() < entry.until) return entry.answer;
      this.#entries.delete(key);
    }
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    if (this.#pending.size >= this.#limits.inFlight) return overloaded;
    const answer = ask()
      .then(({ answer, forMs }) => {
        if (forMs > 0) this.#entries.set(key, { answer, until: this.#clock.monotonic() + forMs });
        return answer;
      })
      .finally(() => this.#pending.delete(key));
    this.#pending.set(key, answer);
    return answer;
  }
}
