import type { Clock, Random } from '../../model/clock.ts';

/** Digits of the part that sets the ids of a process apart. */
const PROCESS_DIGITS = 8;

/** Ids of submissions that the gateway refuses: of the form of query ids, but never of a coordinator. */
export class RefusalIds {
  readonly #clock: Pick<Clock, 'now'>;
  /** Random name of this process. */
  readonly process: string;
  #count = 0;

  constructor(clock: Pick<Clock, 'now'>, random: Random) {
    this.#clock = clock;
    this.process = Math.floor(random() * 36 ** PROCESS_DIGITS)
      .toString(36)
      .padStart(PROCESS_DIGITS, '0');
  }

  /** The next one: no other submission has it, at whatever replica. */
  next(): string {
    const stamp = new Date(this.#clock.now()).toISOString().replace(/[-:]/g, '').slice(0, 15).replace('T', '_');
    this.#count = (this.#count + 1) % 100_000;
    return `${stamp}_${String(this.#count).padStart(5, '0')}_refused_${this.process}`;
  }
}
