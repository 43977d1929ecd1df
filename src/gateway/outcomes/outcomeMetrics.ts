import { Counter, Histogram, type Registry } from 'prom-client';
import { isUserError, type QueryState } from '../../store/queryOutcome.ts';
import type { OutcomeCounts } from './queryOutcomes.ts';

/** Maximum number of groups with separate series; queries of further groups, or without a group, share one. */
const MAX_GROUPS = 200;
/** The engines' types of errors; a cluster may send other values. */
const errorTypes: ReadonlySet<string> = new Set([
  ...['USER_ERROR', 'INTERNAL_ERROR', 'INSUFFICIENT_RESOURCES', 'EXTERNAL'],
]);

export class OutcomeMetrics implements OutcomeCounts {
  readonly #seconds: Histogram<'group' | 'state'>;
  readonly #ended: Counter<'state'>;
  readonly #failures: Counter<'type'>;
  readonly #groups = new Set<string>();

  constructor(registry: Registry) {
    const registers = [registry];
    this.#seconds = new Histogram({
      name: 'engine_gateway_query_duration_seconds',
      help: 'Time from the submission of a query to its end, in seconds, by routing group (the first 200; others are empty) and state, as of engine_gateway_queries_ended_total.',
      labelNames: ['group', 'state'],
      buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600],
      registers,
    });
    this.#ended = new Counter({
      name: 'engine_gateway_queries_ended_total',
      help: 'Queries that ended at this replica, by state: finished, failed, user_error, cancelled, abandoned, refused, denied or lost; user_error are those that failed because of their user.',
      labelNames: ['state'],
      registers,
    });
    this.#failures = new Counter({
      name: 'engine_gateway_query_failures_total',
      help: "Queries that failed, were lost or were refused at this replica, users' errors among them, by type: user_error, internal_error, insufficient_resources, external or other.",
      labelNames: ['type'],
      registers,
    });
    for (const type of [...errorTypes, 'other']) this.#failures.inc({ type: type.toLowerCase() }, 0);
  }

  ended(group: string | null, state: QueryState, seconds: number | null, errorType: string | null): void {
    const label = isUserError(state, errorType) ? 'user_error' : state.toLowerCase();
    this.#ended.inc({ state: label });
    if (seconds !== null) this.#seconds.observe({ group: this.#groupOf(group), state: label }, seconds);
    if (state !== 'FAILED' && state !== 'LOST' && state !== 'REFUSED') return;
    const isKnown = errorType !== null && errorTypes.has(errorType);
    this.#failures.inc({ type: isKnown ? errorType.toLowerCase() : 'other' });
  }

  #groupOf(group: string | null): string {
    if (group === null || this.#groups.has(group)) return group ?? '';
    if (this.#groups.size >= MAX_GROUPS) return '';
    this.#groups.add(group);
    return group;
  }
}
