import { Gauge, Histogram, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';

/** Maximum number of routing groups with separate series; clients name groups, and all others share one. */
const MAX_GROUPS = 1_000;
const OTHER = 'other';

export interface QueueMetricsDependencies {
  readonly registry: Registry;
  readonly table: { readonly current: RoutingTable };
  readonly clock: Pick<Clock, 'monotonic'>;
}

/** Counts and durations of submissions queued at this replica, by routing group. */
export class QueueMetrics {
  readonly #table: { readonly current: RoutingTable };
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #lengths = new Map<string, number>();
  readonly #seconds: Histogram<'group'>;
  readonly #groups = new Set<string>();

  constructor({ registry, table, clock }: QueueMetricsDependencies) {
    this.#table = table;
    this.#clock = clock;
    const lengths = this.#lengths;
    new Gauge({
      name: 'engine_gateway_queue_length',
      help: 'Submissions that wait at this replica, by routing group (docs/limits.md).',
      labelNames: ['group'],
      registers: [registry],
      collect() {
        this.reset();
        // A group with a queue has series before the first wait.
        for (const { name } of table.current.admission.groups.values()) this.set({ group: name }, 0);
        for (const [group, length] of lengths) this.set({ group }, length);
      },
    });
    this.#seconds = new Histogram({
      name: 'engine_gateway_queue_wait_seconds',
      help: 'Time that submissions waited until they were admitted, refused or given up, in seconds, by routing group; of those that waited at all.',
      labelNames: ['group'],
      buckets: [0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600],
      registers: [registry],
    });
  }

  /** @returns ends the wait; idempotent */
  begin(name: string): () => void {
    const group = this.#labelOf(name);
    const lengths = this.#lengths;
    const since = this.#clock.monotonic();
    let isOpen = true;
    lengths.set(group, (lengths.get(group) ?? 0) + 1);
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (lengths.get(group) ?? 1) - 1;
      if (left === 0) lengths.delete(group);
      else lengths.set(group, left);
      this.#seconds.observe({ group }, (this.#clock.monotonic() - since) / 1000);
    };
  }

  #labelOf(group: string): string {
    if (this.#groups.has(group)) return group;
    const { groups, admission } = this.#table.current;
    if (this.#groups.size >= MAX_GROUPS || !(groups.has(group) || admission.groups.has(group))) return OTHER;
    this.#groups.add(group);
    return group;
  }
}
