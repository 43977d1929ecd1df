import { Counter, Gauge, type Registry } from 'prom-client';
import type { LeasedSlots } from '../../admission/leasedSlots.ts';

/** Metrics of admission; labels name resources, never users or sources. */
export class AdmissionMetrics {
  readonly #submissions: Counter<'answer'>;
  readonly #wouldWait: Counter<'limit'>;

  constructor(registry: Registry, ledger: Pick<LeasedSlots, 'states'>) {
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
      help: 'Slots of limits at this replica, by limit and state: in_use, granted (of those, in use or ready), waiting (submissions).',
      labelNames: ['limit', 'state'],
      registers,
      collect: () => {
        slots.reset();
        for (const { key, inUse, granted, waiting } of ledger.states()) {
          if (key.startsWith('rate:') || key.startsWith('queue:')) continue;
          const limit = limitLabel(key);
          slots.inc({ limit, state: 'in_use' }, inUse);
          slots.inc({ limit, state: 'granted' }, granted);
          slots.inc({ limit, state: 'waiting' }, waiting);
        }
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

/** The limit of a counter, without the user or source: `cluster:etl-1`, `limit:analytics/per-user`. */
function limitLabel(key: string): string {
  const [kind, name] = key.split(':', 2);
  return `${kind === 'rate' ? 'limit' : kind}:${name}`;
}
