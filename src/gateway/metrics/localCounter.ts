import { Counter, type CounterConfiguration } from 'prom-client';

export interface Tally {
  count: number;
}

/**
 * A counter of prom-client that is only updated at a scrape: an update per request would look up and check the labels
 * each time.
 */
export class LocalCounter<T extends string> {
  readonly #counter: Counter<T>;
  readonly #tallies: { readonly tally: Tally; readonly child: Counter.Internal }[] = [];

  constructor(configuration: Omit<CounterConfiguration<T>, 'collect'>) {
    this.#counter = new Counter({ ...configuration, collect: () => this.#update() });
  }

  /**
   * Returns the count of a label set, which its holder increments; the label set is exported from the next scrape on.
   */
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
