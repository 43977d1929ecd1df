import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { resourceKinds } from '../../kinds/registry.ts';
import { SERVICE } from '../../kinds/serviceLookup.ts';
import { type Kind, keyOf, keyOfText, type Resource } from '../../model/resource.ts';
import { countedCalls } from '../sources/kubernetes/apiServerCalls.ts';
import type { ControllerContext } from './controller.ts';
import type { RoutingState } from './routingState.ts';
import type { DeletionHold, ServedResources } from './servedResources.ts';
import type { RowWatch } from './unmanagedRows.ts';
import type { WorkQueue } from './workQueue.ts';

/** Most types of conditions that are counted for a kind, and listed of a resource: those of others are theirs to choose. */
const MAX_TYPES = 32;
const MAX_LISTED_TYPES = 16;
const MAX_UNREADY = 200;
/** Bounds as client-go's, but for those below a microsecond. */
const queueBuckets = [0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1, 10, 100];
const reconcileBuckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

type Samples = Iterable<readonly [labels: Readonly<Record<string, string>>, value: number]>;

export type OperatorMetrics = ReturnType<typeof operatorMetrics>;

/** Registers the metrics of an operator; those of reconciles and their queue also with the names of controller-runtime and client-go. */
export function operatorMetrics(registry: Registry, kinds = resourceKinds) {
  const registers = [registry];
  const counter = <Label extends string = never>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
  const histogram = <Label extends string>(name: string, help: string, buckets: number[], label: Label) =>
    new Histogram<Label>({ name, help, buckets, labelNames: [label], registers });
  const samples = (name: string, help: string, labelNames: readonly string[], of: () => Samples): void => {
    new Gauge({
      ...{ name, help, labelNames, registers },
      collect() {
        this.reset();
        for (const [labels, value] of of()) this.set(labels, value);
      },
    });
  };
  const gauge = (name: string, help: string, value: () => number): void =>
    samples(`engine_gateway_${name}`, help, [], () => [[{}, value()]]);
  const nameOf = (key: string): string => kinds.of(keyOfText(key).kind).singular;

  const reconciles = counter('engine_gateway_reconciles_total', 'Reconciles of resources by this process as leader.');
  const failed = counter('engine_gateway_reconcile_errors_total', 'Reconciles that failed and are repeated.');
  const byResult = counter(
    'controller_runtime_reconcile_total',
    'Reconciles by controller (a kind in lower case) and result: success or error. Named as in controller-runtime.',
    'controller',
    'result',
  );
  const errors = counter(
    'controller_runtime_reconcile_errors_total',
    'Reconciles that failed and are repeated, by controller.',
    'controller',
  );
  const seconds = histogram(
    'controller_runtime_reconcile_time_seconds',
    'Time of reconciles in seconds, by controller.',
    reconcileBuckets,
    'controller',
  );
  const adds = counter(
    'workqueue_adds_total',
    'Resources added to the queue of reconciles, by kind. Named as in client-go, like all of workqueue_*.',
    'name',
  );
  const retries = counter(
    'workqueue_retries_total',
    'Resources whose reconcile failed and is repeated, by kind.',
    'name',
  );
  const waits = histogram(
    'workqueue_queue_duration_seconds',
    'Time that resources wait for their reconcile, in seconds, by kind.',
    queueBuckets,
    'name',
  );
  const works = histogram(
    'workqueue_work_duration_seconds',
    'Time of reconciles in seconds, by kind.',
    queueBuckets,
    'name',
  );
  for (const { singular: name } of kinds.all) {
    for (const result of ['success', 'error']) byResult.inc({ controller: name, result }, 0);
    errors.inc({ controller: name }, 0);
    adds.inc({ name }, 0);
    retries.inc({ name }, 0);
  }
  const statusWrites = counter(
    'engine_gateway_status_writes_total',
    'Statuses of resources written to the source, by result: written, or failed and repeated later.',
    'result',
  );
  for (const result of ['written', 'failed']) statusWrites.inc({ result }, 0);
  // Also where no one asks an API server, so that it shows as 0 calls.
  countedCalls(registry);
  const foreignWrites = counter(
    'engine_gateway_foreign_writes_total',
    'Changes of gateway_backend by another gateway: taken over into the resource (adopted, with resources.source: database), or put back (overruled).',
    'outcome',
  );
  // From zero on, so that the first one is a rise.
  for (const outcome of ['adopted', 'overruled']) foreignWrites.inc({ outcome }, 0);

  return {
    refreshes: counter('engine_gateway_routing_table_refreshes_total', 'Recomputations of the routing table.'),
    statusTransitions: counter(
      'engine_gateway_status_transitions_total',
      'Conditions that changed in written statuses.',
    ),
    /** By `outcome`: adopted, overruled. */
    foreignWrites,
    statusWrite: (isWritten: boolean): void => statusWrites.inc({ result: isWritten ? 'written' : 'failed' }),
    added: (key: string): void => adds.inc({ name: nameOf(key) }),
    retried: (key: string): void => retries.inc({ name: nameOf(key) }),
    waited: (key: string, waitedSeconds: number): void => waits.observe({ name: nameOf(key) }, waitedSeconds),
    /** Begins to time a reconcile; call the result when it has ended. */
    started: (key: string): ((isSuccess: boolean) => void) => {
      const controller = nameOf(key);
      const ended = seconds.startTimer({ controller });
      return (isSuccess) => {
        works.observe({ name: controller }, ended());
        reconciles.inc();
        byResult.inc({ controller, result: isSuccess ? 'success' : 'error' });
        if (isSuccess) return;
        failed.inc();
        errors.inc({ controller });
      };
    },
    /** Observes the parts of an operator. */
    observe(
      { source, leadership, clock, otherLosses }: ControllerContext,
      queue: WorkQueue,
      resources: ServedResources,
      state: RoutingState,
      rows: RowWatch,
    ) {
      const queueGauge = (
        name: string,
        help: string,
        keys: ReadonlyMap<string, number>,
        value: (seconds: number[]) => number,
      ) =>
        samples(`workqueue_${name}`, help, ['name'], function* () {
          const now = clock.monotonic();
          const byName = Map.groupBy(keys, ([key]) => nameOf(key));
          for (const { singular } of kinds.all) {
            const ofKind = (byName.get(singular) ?? []).map(([, since]) => (now - since) / 1_000);
            yield [{ name: singular }, value(ofKind)] as const;
          }
        });
      queueGauge('depth', 'Resources that wait for their reconcile, by kind.', queue.waiting, ({ length }) => length);
      queueGauge(
        'unfinished_work_seconds',
        'Time that the running reconciles have taken so far, together, in seconds, by kind.',
        queue.running,
        (running) => running.reduce((sum, each) => sum + each, 0),
      );
      queueGauge(
        'longest_running_processor_seconds',
        'Time that the longest of the running reconciles has taken so far, in seconds, by kind.',
        queue.running,
        (running) => Math.max(0, ...running),
      );
      gauge('resource_source_available', '1 while the resource source can be read.', () =>
        Number(source.state().available),
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
      samples(
        'engine_gateway_held_deletions',
        'Resources that are routed although the source lost them with most of their kind, until that is confirmed.',
        ['kind'],
        () => [
          ...kinds.names.map((kind) => [{ kind }, sumOf(resources.heldOf(kind))] as const),
          ...(otherLosses === undefined ? [] : [[{ kind: SERVICE }, sumOf(otherLosses.losses)] as const]),
        ],
      );
      // A list may have resources as they were before their last status.
      const current = (kind: Kind) => source.list(kind).map((resource) => source.get(keyOf(resource)) ?? resource);
      const ofKinds = (samplesOf: (kind: Kind, present: readonly Resource[]) => Samples) => () =>
        kinds.names.flatMap((kind) => [...samplesOf(kind, current(kind))]);
      samples(
        'engine_gateway_resource_conditions',
        'Resources by kind, type of condition and its status (True, False, Unknown), as their statuses say.',
        ['kind', 'condition', 'status'],
        ofKinds(conditionCounts),
      );
      samples(
        'engine_gateway_unready_resource_conditions',
        '1 for each condition of resources of which Ready is not True, by namespace and name: 200 resources of a kind.',
        ['kind', 'resource_namespace', 'resource_name', 'condition', 'status'],
        ofKinds(unreadyConditions),
      );
      samples(
        'engine_gateway_rules_rejected',
        'Rules that are not used as they are written, by origin: resource (condition Accepted is False) or file (mistakes in the rules file).',
        ['origin'],
        () => {
          const { reports = new Map(), fileProblems = [] } = state.compiled ?? {};
          const rejected = [...reports.values()].filter(({ accepted }) => !accepted);
          return [
            [{ origin: 'resource' }, rejected.length],
            [{ origin: 'file' }, fileProblems.length],
          ];
        },
      );
      gauge('database_available', '1 while the database can be read, as the last look every 5 seconds found it.', () =>
        Number(!rows.away),
      );
      gauge('reconcile_queue_depth', 'Resources that wait for their reconcile.', () => queue.depth);
      gauge('leader', '1 while this process writes statuses and the copy of the resources.', () =>
        Number(leadership.isLeader),
      );
      samples(
        'leader_election_master_status',
        '1 while this process is the leader; name is that of the Lease. Named as in client-go.',
        ['name'],
        () => [[{ name: leadership.name }, Number(leadership.isLeader)]],
      );
    },
  };
}

function sumOf(losses: readonly DeletionHold[]): number {
  return losses.reduce((sum, { held }) => sum + held, 0);
}

/** Counts the resources of a kind by the status of each of their conditions; each type has all three statuses. */
function* conditionCounts(kind: Kind, resources: readonly Resource[]): Samples {
  const counts = new Map<string, Record<string, number>>();
  for (const { type, status } of resources.flatMap((resource) => resource.status?.conditions ?? [])) {
    if (!counts.has(type) && counts.size >= MAX_TYPES) continue;
    const ofType = counts.getOrInsertComputed(type, () => ({ True: 0, False: 0, Unknown: 0 }));
    if (ofType[status] !== undefined) ofType[status] += 1;
  }
  for (const [condition, ofType] of counts) {
    for (const [status, count] of Object.entries(ofType)) yield [{ kind, condition, status }, count];
  }
}

/** The conditions of the resources of which `Ready` is not True. */
function* unreadyConditions(kind: Kind, resources: readonly Resource[]): Samples {
  const unready = resources.filter(({ status }) =>
    status?.conditions?.some(({ type, status: truth }) => type === 'Ready' && truth !== 'True'),
  );
  for (const { metadata, status } of unready.slice(0, MAX_UNREADY)) {
    const place = { kind, resource_namespace: metadata.namespace, resource_name: metadata.name };
    for (const condition of (status?.conditions ?? []).slice(0, MAX_LISTED_TYPES))
      yield [{ ...place, condition: condition.type, status: condition.status }, 1];
  }
}
