import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface HistoryMetrics {
  readonly written: Counter;
  readonly spilled: Counter;
  readonly losses: Counter<'reason'>;
  readonly batch: Histogram;
}

/**
 * Registers the metrics; `depth` is asked at each scrape.
 * @param of whether they are those of the queries, or of how these ended
 */
export function historyMetrics(
  registry: Registry,
  depth: () => { readonly memory: number; readonly spilled: number },
  of: 'history' | 'outcomes',
): HistoryMetrics {
  const what = of === 'history' ? 'Queries' : 'Outcomes of queries';
  const registers = [registry];
  new Gauge({
    name: `engine_gateway_${of}_depth`,
    help: `${what} not yet in the database, by place: memory or disk.`,
    labelNames: ['place'],
    registers,
    collect() {
      const { memory, spilled } = depth();
      this.set({ place: 'memory' }, memory);
      this.set({ place: 'disk' }, spilled);
    },
  });
  const losses = new Counter({
    name: `engine_gateway_${of}_lost_total`,
    help: `${what} missing in the history, by reason: memory (no room there), disk (no room there), refused (by the database) or torn (on disk).`,
    labelNames: ['reason'],
    registers,
  });
  // From the beginning, so that Prometheus sees the first loss as growth.
  for (const reason of ['memory', 'disk', 'refused', 'torn']) losses.inc({ reason }, 0);
  return {
    losses,
    written: new Counter({
      name: `engine_gateway_${of}_written_total`,
      help: `${what} written to the database.`,
      registers,
    }),
    spilled: new Counter({
      name: `engine_gateway_${of}_spilled_total`,
      help: `${what} put on disk, to be written later.`,
      registers,
    }),
    batch: new Histogram({
      name: `engine_gateway_${of}_batch_seconds`,
      help: 'Time to write a batch to the database, in seconds.',
      buckets: [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    }),
  };
}
