import type { Clock } from '../../model/clock.ts';

/** Milliseconds that a body may take at any pace; the rate is that since its begin, so that short pauses do not matter. */
export const PACE_GRACE_MS = 10_000;
const CHECK_INTERVAL_MS = 1_000;

/** Ends bodies that come more slowly than `server.minBodyRate`. */
export class BodyPaces {
  readonly #minRate: () => number;
  readonly #clock: Clock;
  #first: BodyPace | null = null;
  #timer: NodeJS.Timeout | null = null;

  /** @param minRate bytes a second; 0 for any */
  constructor(minRate: () => number, clock: Clock) {
    this.#minRate = minRate;
    this.#clock = clock;
  }

  /** Watches a body that begins to be read; its owner ends the watch. */
  watch(tooSlow: () => void): BodyPace {
    const pace = new BodyPace(this, tooSlow, this.#clock.monotonic());
    pace.next = this.#first;
    if (this.#first !== null) this.#first.previous = pace;
    this.#first = pace;
    this.#timer ??= setInterval(() => this.check(), CHECK_INTERVAL_MS).unref();
    return pace;
  }

  /** Takes a body off the list. */
  unlink(pace: BodyPace): void {
    if (pace.previous !== null) pace.previous.next = pace.next;
    else if (this.#first === pace) this.#first = pace.next;
    if (pace.next !== null) pace.next.previous = pace.previous;
    pace.previous = null;
    pace.next = null;
  }

  now(): number {
    return this.#clock.monotonic();
  }

  /** Looks once for bodies that are too slow. */
  check(): void {
    const rate = this.#minRate();
    const now = this.#clock.monotonic();
    let pace = this.#first;
    while (pace !== null) {
      const { next } = pace;
      if (pace.isTooSlow(now, rate)) {
        pace.end();
        pace.tooSlow();
      }
      pace = next;
    }
    if (this.#first === null && this.#timer !== null) {
      clearInterval(this.#timer);
      this.#timer = null;
    }
  }
}

/** How fast one body comes. */
export class BodyPace {
  previous: BodyPace | null = null;
  next: BodyPace | null = null;
  /** Bytes of the body so far. */
  received = 0;
  readonly tooSlow: () => void;
  readonly #paces: BodyPaces;
  /** Monotonic time at which the body would have begun if it had never been held back. */
  #begin: number;
  #heldBackSince: number | null = null;
  #ended = false;

  constructor(paces: BodyPaces, tooSlow: () => void, begin: number) {
    this.#paces = paces;
    this.tooSlow = tooSlow;
    this.#begin = begin;
  }

  /** The gateway itself does not read on: the time does not count. */
  holdBack(): void {
    this.#heldBackSince ??= this.#paces.now();
  }

  /** The gateway reads on. */
  goOn(): void {
    if (this.#heldBackSince === null) return;
    this.#begin += this.#paces.now() - this.#heldBackSince;
    this.#heldBackSince = null;
  }

  isTooSlow(now: number, rate: number): boolean {
    const age = now - this.#begin;
    return this.#heldBackSince === null && age > PACE_GRACE_MS && this.received * 1_000 < rate * age;
  }

  /** The body is there, or not read any more. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#paces.unlink(this);
  }
}
