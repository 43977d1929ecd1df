import type { Clock, Random } from '../../model/clock.ts';

const PROCESS_DIGITS = 8;

/** Ids of rejected submissions: of the form of query ids, but never of a coordinator. */
export class RefusalIds {
  readonly #clock: Pick<Clock, 'now'>;
  readonly process: string;
  #count = 0;

  constructor(clock: Pick<Clock, 'now'>, random: Random) {
    this.#clock = clock;
    this.process = Math.floor(random() * 36 ** PROCESS_DIGITS)
      .toString(36)
      .padStart(PROCESS_DIGITS, '0');
  }

  /** Returns the next id, unique across replicas. */
  next(): string {
    const stamp = new Date(this.#clock.now()).toISOString().replace(/[-:]/g, '').slice(0, 15).replace('T', '_');
    this.#count = (this.#count + 1) % 100_000;
    return `${stamp}_${String(this.#count).padStart(5, '0')}_refused_${this.process}`;
  }
}
