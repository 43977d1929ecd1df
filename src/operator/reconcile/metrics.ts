import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import { resourceKinds } from '../../kinds/registry.ts';
import { SERVICE } from '../../kinds/serviceLookup.ts';
import type { Clock } from '../../model/clock.ts';
import { type Kind, keyOf } from '../../model/resource.ts';
import type { CompiledRules } from '../../rules/ruleCompiler.ts';
import type { Leadership } from '../leadership/leadership.ts';
import { countedCalls } from '../sources/kubernetes/apiServerCalls.ts';
import type { ResourceSource } from '../sources/source.ts';
import { conditionCounts, unreadyConditions } from './conditionCounts.ts';
import type { HeldDeletions, OtherLosses } from './deletionGuard.ts';
import { WorkQueueMetrics } from './queueMetrics.ts';
import type { ServedResources } from './servedResources.ts';
import type { QueueObserver } from './workQueue.ts';

export interface ObservedOperator {
  readonly source: Pick<ResourceSource, 'state' | 'problems' | 'list' | 'get'>;
  readonly queue: { readonly depth: number };
  readonly leadership: Pick<Leadership, 'isLeader' | 'name'>;
  readonly clock: Clock;
  readonly resources: Pick<ServedResources, 'heldOf'>;
  /** Losses of what resources are made of, or null. */
  readonly otherLosses: Pick<OtherLosses, 'losses'> | null;
  readonly databaseIsAvailable: () => boolean;
  /** All rules as last compiled; null before the first time. */
  readonly rules: () => Pick<CompiledRules, 'reports' | 'fileProblems'> | null;
}

export interface OperatorMetrics {
  /** Counts and times a reconcile, whose rejection is passed on. */
  reconcile(kind: Kind, work: () => Promise<void>): Promise<void>;
  queue(clock: Clock): QueueObserver;
  statusWrite(isWritten: boolean): void;
  readonly refreshes: Counter;
  readonly statusTransitions: Counter;
  /** By `outcome`: adopted, overruled. */
  readonly foreignWrites: Counter<'outcome'>;
  observe(observed: ObservedOperator): void;
}

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
  const reconcile = reconcileMetrics(registry, kinds);
  const statusWrites = new Counter({
    name: 'engine_gateway_status_writes_total',
    help: 'Statuses of resources written to the source, by result: written, or failed and repeated later.',
    labelNames: ['result'],
    registers: [registry],
  });
  for (const result of ['written', 'failed']) statusWrites.inc({ result }, 0);
  // Also where no one asks an API server, so that it shows as 0 calls.
  countedCalls(registry);
  const foreignWrites = new Counter({
    name: 'engine_gateway_foreign_writes_total',
    help: 'Changes of gateway_backend by another gateway: taken over into the resource (adopted, with resources.source: database), or put back (overruled).',
    labelNames: ['outcome'],
    registers: [registry],
  });
  // From zero on, so that the first one is a rise.
  for (const outcome of ['adopted', 'overruled']) foreignWrites.inc({ outcome }, 0);
  return {
    reconcile,
    queue: (clock) => new WorkQueueMetrics(registry, kinds, clock),
    statusWrite: (isWritten) => statusWrites.inc({ result: isWritten ? 'written' : 'failed' }),
    refreshes: counter('routing_table_refreshes_total', 'Recomputations of the routing table.'),
    statusTransitions: counter('status_transitions_total', 'Conditions that changed in written statuses.'),
    foreignWrites,
    observe({ source, queue, leadership, clock, resources, otherLosses, databaseIsAvailable, rules }) {
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
          for (const kind of kinds.names) this.set({ kind }, sumOf(resources.heldOf(kind)));
          if (otherLosses === null) return;
          this.set({ kind: SERVICE }, sumOf(otherLosses.losses));
        },
      });
      // A list may have resources as they were before their last status.
      const current = (kind: Kind) => source.list(kind).map((resource) => source.get(keyOf(resource)) ?? resource);
      new Gauge({
        name: 'engine_gateway_resource_conditions',
        help: 'Resources by kind, type of condition and its status (True, False, Unknown), as their statuses say.',
        labelNames: ['kind', 'condition', 'status'],
        registers: [registry],
        collect() {
          this.reset();
          for (const name of kinds.names) {
            for (const { count, ...labels } of conditionCounts(name, current(name))) this.set(labels, count);
          }
        },
      });
      new Gauge({
        name: 'engine_gateway_unready_resource_conditions',
        help: '1 for each condition of resources of which Ready is not True, by namespace and name: 200 resources of a kind.',
        labelNames: ['kind', 'resource_namespace', 'resource_name', 'condition', 'status'],
        registers: [registry],
        collect() {
          this.reset();
          for (const name of kinds.names) {
            for (const labels of unreadyConditions(name, current(name))) this.set({ ...labels }, 1);
          }
        },
      });
      new Gauge({
        name: 'engine_gateway_rules_rejected',
        help: 'Rules that are not used as they are written, by origin: resource (condition Accepted is False) or file (mistakes in the rules file).',
        labelNames: ['origin'],
        registers: [registry],
        collect() {
          const compiled = rules();
          const reports = [...(compiled?.reports.values() ?? [])];
          this.set({ origin: 'resource' }, reports.filter(({ accepted }) => !accepted).length);
          this.set({ origin: 'file' }, compiled?.fileProblems.length ?? 0);
        },
      });
      gauge('database_available', '1 while the database can be read, as the last look every 5 seconds found it.', () =>
        databaseIsAvailable() ? 1 : 0,
      );
      gauge('reconcile_queue_depth', 'Resources that wait for their reconcile.', () => queue.depth);
      gauge('leader', '1 while this process writes statuses and the copy of the resources.', () =>
        leadership.isLeader ? 1 : 0,
      );
      new Gauge({
        name: 'leader_election_master_status',
        help: '1 while this process is the leader; name is that of the Lease. Named as in client-go.',
        labelNames: ['name'],
        registers: [registry],
        collect() {
          this.set({ name: leadership.name }, leadership.isLeader ? 1 : 0);
        },
      });
    },
  };
}

/** Counts and times reconciles, with names of our own and with those of controller-runtime. */
function reconcileMetrics(registry: Registry, kinds: KindRegistry): OperatorMetrics['reconcile'] {
  const registers = [registry];
  const all = new Counter({
    name: 'engine_gateway_reconciles_total',
    help: 'Reconciles of resources by this process as leader.',
    registers,
  });
  const failed = new Counter({
    name: 'engine_gateway_reconcile_errors_total',
    help: 'Reconciles that failed and are repeated.',
    registers,
  });
  const byResult = new Counter({
    name: 'controller_runtime_reconcile_total',
    help: 'Reconciles by controller (a kind in lower case) and result: success or error. Named as in controller-runtime.',
    labelNames: ['controller', 'result'],
    registers,
  });
  const errors = new Counter({
    name: 'controller_runtime_reconcile_errors_total',
    help: 'Reconciles that failed and are repeated, by controller.',
    labelNames: ['controller'],
    registers,
  });
  const seconds = new Histogram({
    name: 'controller_runtime_reconcile_time_seconds',
    help: 'Time of reconciles in seconds, by controller.',
    labelNames: ['controller'],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
    registers,
  });
  for (const { singular: controller } of kinds.all) {
    for (const result of ['success', 'error']) byResult.inc({ controller, result }, 0);
    errors.inc({ controller }, 0);
  }
  return async (kind, work) => {
    const controller = kinds.of(kind).singular;
    const ended = seconds.startTimer({ controller });
    all.inc();
    let result = 'error';
    try {
      await work();
      result = 'success';
    } finally {
      ended();
      byResult.inc({ controller, result });
      if (result === 'error') {
        failed.inc();
        errors.inc({ controller });
      }
    }
  };
}

function sumOf(losses: readonly HeldDeletions[]): number {
  return losses.reduce((sum, { held }) => sum + held, 0);
}
