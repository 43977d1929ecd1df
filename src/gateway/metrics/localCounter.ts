import { Counter, type CounterConfiguration } from 'prom-client';

/** What was counted of one label set since the counter was asked last. */
export interface Tally {
  count: number;
}

/**
 * A counter of prom-client's that is updated only at a scrape: updated by every request, it would look up
 * and check the labels each time.
 */
export class LocalCounter<T extends string> {
  readonly #counter: Counter<T>;
  readonly #tallies: { readonly tally: Tally; readonly child: Counter.Internal }[] = [];

  constructor(configuration: Omit<CounterConfiguration<T>, 'collect'>) {
    this.#counter = new Counter({ ...configuration, collect: () => this.#update() });
  }

  /** A number for a label set that its holder adds to; the label set shows from the next scrape on. */
  tally(labels: Partial<Record<T, string>>): Tally {
    const tally: Tally = { count: 0 };
    this.#tallies.push({ tally, child: this.#counter.labels(labels) });
    return tally;
  }

  #update(): void {
    for (const { tally, child } of this.#tallies) {
      child.inc(tally.count);
      tally.count = 0;
    }
  }
}
