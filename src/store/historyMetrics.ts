import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Metrics of the history writer. */
export interface HistoryMetrics {
  readonly written: Counter;
  readonly spilled: Counter;
  readonly losses: Counter<'reason'>;
  readonly batch: Histogram;
}

/** Registers the metrics; `depth` is asked at each scrape. */
export function historyMetrics(
  registry: Registry,
  depth: () => { readonly memory: number; readonly spilled: number },
): HistoryMetrics {
  const registers = [registry];
  new Gauge({
    name: 'engine_gateway_history_depth',
    help: 'Queries not yet in the database, by place: memory or disk.',
    labelNames: ['place'],
    registers,
    collect() {
      const { memory, spilled } = depth();
      this.set({ place: 'memory' }, memory);
      this.set({ place: 'disk' }, spilled);
    },
  });
  const losses = new Counter({
    name: 'engine_gateway_history_lost_total',
    help: 'Queries missing in the history, by reason: memory (no room there), disk (no room there), refused (by the database) or torn (on disk).',
    labelNames: ['reason'],
    registers,
  });
  // From the beginning, so that Prometheus sees the first loss as growth.
  for (const reason of ['memory', 'disk', 'refused', 'torn']) losses.inc({ reason }, 0);
  return {
    losses,
    written: new Counter({
      name: 'engine_gateway_history_written_total',
      help: 'Queries written to the database.',
      registers,
    }),
    spilled: new Counter({
      name: 'engine_gateway_history_spilled_total',
      help: 'Queries put on disk, to be written later.',
      registers,
    }),
    batch: new Histogram({
      name: 'engine_gateway_history_batch_seconds',
      help: 'Time to write a batch to the database, in seconds.',
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    }),
  };
}
