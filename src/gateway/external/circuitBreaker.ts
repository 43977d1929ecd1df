import type { Clock } from '../../model/clock.ts';

/** When a service counts as dead, and how long it is left alone. */
export interface CircuitBreakerSettings {
  /** Failures in a row after which nobody asks any more. */
  readonly failureThreshold: number;
  /** Milliseconds until one request may try again. */
  readonly retryAfter: number;
}

/**
 * Keeps a dead service from delaying every caller: after failures in a row nobody is let through, until one caller a
 * while may try; its success opens the way for all (M. Nygard's circuit breaker).
 */
export class CircuitBreaker {
  readonly #settings: CircuitBreakerSettings;
  readonly #clock: Clock;
  #failures = 0;
  /** Monotonic time at which one may try again; null while all may. */
  #retryAt: number | null = null;
  #trying = false;

  constructor(settings: CircuitBreakerSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  /** Whether the service is left alone. */
  get isOpen(): boolean {
    return this.#retryAt !== null;
  }

  /** Asks for the way through; who gets it must report `noteSuccess` or `noteFailure`. */
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
    // Those who were on their way when it opened do not keep it open any longer.
    if (this.#retryAt !== null && !this.#trying) return;
    if (this.#failures < failureThreshold) return;
    this.#trying = false;
    this.#retryAt = this.#clock.monotonic() + retryAfter;
  }
}
