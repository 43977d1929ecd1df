import { Counter, Gauge, type Registry } from 'prom-client';
import { resourceKinds } from '../../kinds/registry.ts';
import type { Clock } from '../../model/clock.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { ResourceSource } from '../sources/source.ts';
import type { ServedResources } from './servedResources.ts';

/** What the operator's gauges look at. */
export interface ObservedOperator {
  readonly source: Pick<ResourceSource, 'state' | 'problems' | 'list'>;
  readonly queue: { readonly depth: number };
  readonly leadership: Pick<Leadership, 'isLeader'>;
  readonly clock: Clock;
  readonly resources: Pick<ServedResources, 'heldOf'>;
}

/** Metrics of the operator. */
export interface OperatorMetrics {
  readonly reconciles: Counter;
  readonly reconcileErrors: Counter;
  readonly refreshes: Counter;
  readonly statusTransitions: Counter;
  /** Makes the gauges report the state of these objects. */
  observe(observed: ObservedOperator): void;
}

/** Registers the operator's metrics. */
export function operatorMetrics(registry: Registry, kinds = resourceKinds): OperatorMetrics {
  const counter = (name: string, help: string): Counter =>
    new Counter({ name: `engine_gateway_${name}`, help, registers: [registry] });
  const gauge = (name: string, help: string, value: () => number): void => {
    new Gauge({
      name: `engine_gateway_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(value());
      },
    });
  };
  return {
    reconciles: counter('reconciles_total', 'Reconciles of resources by this process as leader.'),
    reconcileErrors: counter('reconcile_errors_total', 'Reconciles that failed and are repeated.'),
    refreshes: counter('routing_table_refreshes_total', 'Recomputations of the routing table.'),
    statusTransitions: counter('status_transitions_total', 'Conditions that changed in written statuses.'),
    observe({ source, queue, leadership, clock, resources }) {
      gauge('resource_source_available', '1 while the resource source can be read.', () =>
        source.state().available ? 1 : 0,
      );
      gauge(
        'resource_source_last_event_age_seconds',
        'Seconds since the last event of the resource source; -1 before the first.',
        () => {
          const { lastEventAt } = source.state();
          return lastEventAt === null ? -1 : (clock.monotonic() - lastEventAt) / 1_000;
        },
      );
      gauge(
        'resource_source_problems',
        'Documents of the resource source that cannot be read.',
        () => source.problems().length,
      );
      for (const { kind, gauge: of } of kinds.all) gauge(of.name, of.help, () => source.list(kind).length);
      new Gauge({
        name: 'engine_gateway_held_deletions',
        help: 'Resources that are routed although the source lost them with most of their kind, until that is confirmed.',
        labelNames: ['kind'],
        registers: [registry],
        collect() {
          for (const kind of kinds.names) this.set({ kind }, resources.heldOf(kind)?.held ?? 0);
        },
      });
      gauge('reconcile_queue_depth', 'Resources that wait for their reconcile.', () => queue.depth);
      gauge('leader', '1 while this process writes statuses and projections.', () => (leadership.isLeader ? 1 : 0));
    },
  };
}
