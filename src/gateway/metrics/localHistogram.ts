import type { Histogram, Registry } from 'prom-client';

/** What a histogram is made with; as prom-client's, with one label. */
export interface LocalHistogramOptions {
  readonly name: string;
  readonly help: string;
  readonly labelName: string;
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
}

/** Observations of one label value. */
export interface Observations {
  /** @param value finite */
  observe(value: number): void;
}

/** What a registry asks of a metric; of prom-client's histogram it is the part that tells, not the one that observes. */
type Told = Pick<Histogram, 'get' | 'reset'> & { readonly name: string };
type Values = Awaited<ReturnType<Histogram['get']>>;

/**
 * A histogram that registries show like one of prom-client. There, an observation looks its labels up and checks them
 * again, and many cannot be handed over at once; here it is two additions.
 */
export class LocalHistogram implements Told {
  // Fields that only TypeScript hides: what shows metrics may do so by views, objects whose prototype this is.
  readonly name: string;
  private readonly help: string;
  private readonly labelName: string;
  /** As prom-client's metrics have it: names of labels, which docs/metrics.md is generated from. */
  readonly labelNames: readonly string[];
  private readonly bounds: readonly number[];
  private readonly known = new Map<string, LabelledObservations>();

  constructor({ name, help, labelName, buckets, registry }: LocalHistogramOptions) {
    this.name = name;
    this.help = help;
    this.labelName = labelName;
    this.labelNames = [labelName];
    this.bounds = buckets;
    registry.registerMetric(this as unknown as Histogram);
  }

  /** The observations of a label value. To be kept: looking them up costs as much as observing. */
  of(label: string): Observations {
    let observations = this.known.get(label);
    if (observations === undefined) {
      observations = new LabelledObservations(this.bounds);
      this.known.set(label, observations);
    }
    return observations;
  }

  /** All values in the form of prom-client. */
  async get(): Promise<Values> {
    const values: (Values['values'][number] & { metricName: string })[] = [];
    for (const [label, { counts, sum }] of this.known) {
      // As after `reset`.
      if (counts.every((count) => count === 0)) continue;
      const add = (suffix: string, value: number, le: Readonly<Record<string, number | string>> = {}) =>
        values.push({ metricName: `${this.name}_${suffix}`, labels: { ...le, [this.labelName]: label }, value });
      let count = 0;
      for (const [index, le] of [...this.bounds, '+Inf'].entries()) {
        count += counts[index] ?? 0;
        add('bucket', count, { le });
      }
      add('sum', sum);
      add('count', count);
    }
    const { name, help } = this;
    return { name, help, type: 'histogram', aggregator: 'sum', values } as unknown as Values;
  }

  reset(): void {
    for (const observations of this.known.values()) observations.reset();
  }
}

class LabelledObservations implements Observations {
  /** Of each bucket alone; the last is for what is above all bounds. */
  readonly counts: Float64Array;
  sum = 0;
  private readonly bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const { bounds, counts } = this;
    let index = 0;
    while (index < bounds.length && value > (bounds[index] as number)) index += 1;
    counts[index] = (counts[index] as number) + 1;
    this.sum += value;
  }

  reset(): void {
    this.counts.fill(0);
    this.sum = 0;
  }
}
