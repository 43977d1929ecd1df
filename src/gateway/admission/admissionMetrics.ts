import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { LimitCounters } from '../../admission/limitCounters.ts';
import type { Clock } from '../../model/clock.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { clusterDemand } from './limitDemands.ts';

/** Maximum number of routing groups with separate series; clients name groups, and all others share one. */
const MAX_GROUPS = 1_000;
const OTHER = 'other';

/** Metrics of admission and of submissions queued here; labels name resources, never users or sources. */
export class AdmissionMetrics {
  readonly submissions: Counter<'answer'>;
  readonly #wouldWait: Counter<'limit'>;
  readonly #seconds: Histogram<'group'>;
  readonly #table: { readonly current: RoutingTable };
  readonly #clock: Clock;
  readonly #lengths = new Map<string, number>();
  readonly #groups = new Set<string>();

  constructor(registry: Registry, table: { readonly current: RoutingTable }, counters: LimitCounters, clock: Clock) {
    const registers = [registry];
    this.#table = table;
    this.#clock = clock;
    this.submissions = new Counter({
      name: 'engine_gateway_admission_total',
      help: 'Submissions that limits are about, by what became of them: now, waited, refused, or unavailable (admitted over a limit, as the database is unavailable).',
      labelNames: ['answer'],
      registers,
    });
    for (const answer of ['now', 'waited', 'refused', 'unavailable']) this.submissions.inc({ answer }, 0);
    this.#wouldWait = new Counter({
      name: 'engine_gateway_limit_observed_total',
      help: 'Submissions that a limit of mode observe would have let wait, by limit.',
      labelNames: ['limit'],
      registers,
    });
    this.#seconds = new Histogram({
      name: 'engine_gateway_queue_wait_seconds',
      help: 'Time that submissions waited until they were admitted, refused or given up, in seconds, by routing group; of those that waited at all.',
      labelNames: ['group'],
      buckets: [0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600],
      registers,
    });
    const slots = new Gauge({
      name: 'engine_gateway_limit_slots',
      help: 'Slots of limits in use on all replicas, by limit, as of the last statement of this replica about them.',
      labelNames: ['limit'],
      registers,
      collect: () => {
        slots.reset();
        for (const [key, inUse] of counters.used()) if (isSlot(key)) slots.inc({ limit: limitLabel(key) }, inUse);
      },
    });
    const length = new Gauge({
      name: 'engine_gateway_queue_length',
      help: 'Submissions that wait at this replica, by routing group (docs/limits.md).',
      labelNames: ['group'],
      registers,
      collect: () => {
        length.reset();
        // A group with a queue has series before the first wait.
        for (const { name } of table.current.admission.groups.values()) length.set({ group: name }, 0);
        for (const [group, count] of this.#lengths) length.set({ group }, count);
      },
    });
    const difference = new Gauge({
      name: 'engine_gateway_cluster_uncounted_queries',
      help: 'Queries that a cluster with maxRunningQueries reports as running beyond those that the gateway counts there, as of its last health check; negative where it reports fewer. Of clusters whose health check reports them (docs/limits.md).',
      labelNames: ['cluster'],
      registers,
      collect: () => {
        difference.reset();
        for (const cluster of table.current.clusters.values()) {
          const demand = clusterDemand(cluster);
          const { running } = cluster.health;
          if (demand !== null && running !== null)
            difference.set({ cluster: cluster.name }, running - counters.use(demand.key));
        }
      },
    });
  }

  /** @param key counter of a limit that only observes */
  wouldWait(key: string): void {
    this.#wouldWait.inc({ limit: limitLabel(key) });
  }

  /** Counts a submission that waits. @returns ends the wait; called once */
  beginWait(name: string): () => void {
    const group = this.#labelOf(name);
    const since = this.#clock.monotonic();
    this.#lengths.set(group, (this.#lengths.get(group) ?? 0) + 1);
    return () => {
      const left = (this.#lengths.get(group) ?? 1) - 1;
      if (left === 0) this.#lengths.delete(group);
      else this.#lengths.set(group, left);
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

function isSlot(key: string): boolean {
  return ['cluster:', 'group:', 'limit:'].some((kind) => key.startsWith(kind));
}

/** The limit of a counter, without the user or source: `cluster:etl-1`, `limit:analytics/per-user`. */
function limitLabel(key: string): string {
  const [kind, name] = key.split(':', 2);
  return `${kind === 'rate' ? 'limit' : kind}:${name}`;
}
