import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';

export interface Remembered<Answer> {
  readonly answer: Answer;
  readonly forMs: number;
}

export interface TokenMemoryLimits {
  /** Maximum number of cached responses; least recently used ones are evicted first. */
  readonly entries: number;
  readonly inFlight: number;
}

/** Single-flight cache of responses about tokens. Tokens are only stored as hashes. */
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
   * The response about a token: synchronously if cached.
   * @param ask requests it; must not reject
   * @param overloaded result, not cached, if there are too many concurrent requests
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
