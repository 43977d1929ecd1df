import type { Clock } from '../../model/clock.ts';

/** A refresh is followed by a pause of this many times what it took, at most `MAX_PAUSE_MS`. */
const PAUSE_FACTOR = 2;
const MAX_PAUSE_MS = 250;

/** When the routing table is refreshed: many calls become one refresh, and a large one leaves time for everything else. */
export class RefreshSchedule {
  readonly #clock: Clock;
  readonly #refresh: () => void;
  #planned: NodeJS.Timeout | NodeJS.Immediate | null = null;
  /** Monotonic milliseconds before which no planned refresh begins. */
  #notBefore = 0;

  /** @param refresh called when one is due; it does the work within `measure` */
  constructor(clock: Clock, refresh: () => void) {
    this.#clock = clock;
    this.#refresh = refresh;
  }

  /** Has a refresh happen soon, unless one is planned already. */
  request(): void {
    if (this.#planned !== null) return;
    const begin = (): void => {
      this.#planned = null;
      this.#refresh();
    };
    const waitMs = this.#notBefore - this.#clock.monotonic();
    this.#planned = waitMs > 1 ? setTimeout(begin, waitMs) : setImmediate(begin);
  }

  /**
   * Does the work of a refresh; the longer it takes, the later the next planned one begins. It does what one that is
   * planned already would do.
   */
  measure<Result>(work: () => Result): Result {
    this.stop();
    this.#planned = null;
    const started = this.#clock.monotonic();
    const result = work();
    const ended = this.#clock.monotonic();
    this.#notBefore = ended + Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * (ended - started));
    return result;
  }

  /** Takes back what is planned. */
  stop(): void {
    clearImmediate(this.#planned as NodeJS.Immediate);
    clearTimeout(this.#planned as NodeJS.Timeout);
  }
}
