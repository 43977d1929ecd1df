import { Counter, Gauge, type Registry } from 'prom-client';
import type { LimitCounters } from '../../admission/limitCounters.ts';

/** Metrics of admission; labels name resources, never users or sources. */
export class AdmissionMetrics {
  readonly #submissions: Counter<'answer'>;
  readonly #wouldWait: Counter<'limit'>;

  constructor(registry: Registry, counters: Pick<LimitCounters, 'used'>) {
    const registers = [registry];
    this.#submissions = new Counter({
      name: 'engine_gateway_admission_total',
      help: 'Submissions that limits are about, by what became of them: now, waited, refused, or unavailable (admitted over a limit, as the database is unavailable).',
      labelNames: ['answer'],
      registers,
    });
    for (const answer of ['now', 'waited', 'refused', 'unavailable']) this.#submissions.inc({ answer }, 0);
    this.#wouldWait = new Counter({
      name: 'engine_gateway_limit_observed_total',
      help: 'Submissions that a limit of mode observe would have let wait, by limit.',
      labelNames: ['limit'],
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
  }

  admitted(): void {
    this.#submissions.inc({ answer: 'now' });
  }

  waited(): void {
    this.#submissions.inc({ answer: 'waited' });
  }

  rejected(): void {
    this.#submissions.inc({ answer: 'refused' });
  }

  admittedAnyway(): void {
    this.#submissions.inc({ answer: 'unavailable' });
  }

  /** @param key counter of a limit that only observes */
  wouldWait(key: string): void {
    this.#wouldWait.inc({ limit: limitLabel(key) });
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
