import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';

/** A response about a token, and the time for which it is cached. */
export interface TimedResponse<Answer> {
  readonly answer: Answer;
  readonly forMs: number;
}

/** Maximum number of cached responses; least recently used ones are evicted first. */
const MAX_ENTRIES = 10_000;

/** Single-flight cache of responses about tokens. Tokens are only stored as hashes. */
export class TokenMemory<Answer extends object> {
  readonly #entries = new LRUCache<string, { readonly answer: Answer; readonly until: number }>({ max: MAX_ENTRIES });
  readonly #pending = new Map<string, Promise<Answer>>();
  readonly #maxPending: number;
  readonly #clock: Clock;

  constructor(maxPending: number, clock: Clock) {
    this.#maxPending = maxPending;
    this.#clock = clock;
  }

  /**
   * The response about a token: synchronously if cached.
   * @param ask requests it; must not reject
   * @param overloaded result, not cached, if there are too many concurrent requests
   */
  get(token: string, ask: () => Promise<TimedResponse<Answer>>, overloaded: Answer): Answer | Promise<Answer> {
    const key = createHash('sha256').update(token).digest('base64');
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      if (this.#clock.monotonic() < entry.until) return entry.answer;
      this.#entries.delete(key);
    }
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending;
    if (this.#pending.size >= this.#maxPending) return overloaded;
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
