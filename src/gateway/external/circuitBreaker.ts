import type { Clock } from '../../model/clock.ts';

/** When a service counts as dead, and how long it is left alone. */
export interface CircuitBreakerSettings {
  /** Consecutive failures after which calls are rejected. */
  readonly failureThreshold: number;
  /** Milliseconds until one trial call is allowed. */
  readonly retryAfter: number;
}

/**
 * Circuit breaker (M. Nygard): after consecutive failures, calls are rejected, with one trial call at intervals; its
 * success closes the breaker.
 */
export class CircuitBreaker {
  readonly #settings: CircuitBreakerSettings;
  readonly #clock: Clock;
  #failures = 0;
  /** Monotonic time of the next trial call; null while closed. */
  #retryAt: number | null = null;
  #trying = false;

  constructor(settings: CircuitBreakerSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** True while calls are rejected. */
  get isOpen(): boolean {
    return this.#retryAt !== null;
  }

  /** Returns true if a call is allowed; it must report `noteSuccess` or `noteFailure`. */
  enter(): boolean {
    if (this.#retryAt === null) return true;
    if (this.#trying || this.#clock.monotonic() < this.#retryAt) return false;
    this.#trying = true;
    return true;
  }

  noteSuccess(): void {
    this.#failures = 0;
    this.#retryAt = null;
    this.#trying = false;
  }

  noteFailure(): void {
    const { failureThreshold, retryAfter } = this.#settings;
    this.#failures += 1;
    // Calls in flight when it opened do not extend the time.
    if (this.#retryAt !== null && !this.#trying) return;
    if (this.#failures < failureThreshold) return;
    this.#trying = false;
    this.#retryAt = this.#clock.monotonic() + retryAfter;
  }
}
