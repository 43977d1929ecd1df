import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { Findings } from '../../src/kinds/outcome.ts';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { noServices } from '../../src/kinds/serviceLookup.ts';
import { systemClock } from '../../src/model/clock.ts';
import { type ClusterAddresses, openAddresses } from '../../src/model/clusterAddresses.ts';
import { type ResourceKey, registryNameOf } from '../../src/model/resource.ts';
import { DatabaseLeadership } from '../../src/operator/leadership/leadership.ts';
import { Controller, type ControllerContext } from '../../src/operator/reconcile/controller.ts';
import { groupApplier } from '../../src/operator/reconcile/groupApplier.ts';
import { operatorMetrics } from '../../src/operator/reconcile/metrics.ts';
import { type ExternalChangeReport, externalChangeReport } from '../../src/operator/reconcile/unmanagedRows.ts';
import { ResourceClusterRegistry } from '../../src/operator/registry/clusterRegistry.ts';
import { type GroupTables, groupTables } from '../../src/operator/registry/groupWrites.ts';
import { type ApiWrites, ResourceWrites } from '../../src/operator/registry/resourceWrites.ts';
import { DatabaseSource } from '../../src/operator/sources/database/databaseSource.ts';
import { DirectorySource } from '../../src/operator/sources/directory/directorySource.ts';
import type { ResourceSource } from '../../src/operator/sources/source.ts';
import { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import type { SchemaStores } from '../../src/store/resourceGroupStore.ts';
import type { Store } from '../../src/store/store.ts';
import { defaultDeletionGuard } from './defaults.ts';
import { defaultRuleCompiler } from './resourceRules.ts';

const logger = pino({ enabled: false });

/** One replica's operator over a real store and a real source. */
export interface OperatorRig {
  readonly source: ResourceSource;
  readonly table: RoutingTableHolder;
  readonly controller: Controller;
  readonly registry: ResourceClusterRegistry;
  readonly leadership: DatabaseLeadership;
  /** The tables of resource groups as calls use them; null where there are none. */
  readonly groups: GroupTables | null;
  stop(): Promise<void>;
}

/** What a test chooses. */
export interface RigOptions {
  readonly controller?: Partial<ControllerContext>;
  readonly registry?: { readonly apiWrites?: ApiWrites; readonly addresses?: ClusterAddresses };
  readonly leaderTtlMs?: number;
  /** Where resource groups go; left out, nowhere. */
  readonly groups?: SchemaStores;
}

/** Quick times, so that tests need not wait. */
const quick = { settleMs: 20, confirmDeletionMs: 150, confirmEmptyMs: 300, pollMs: 100 };

/** A source over a directory with quick times. */
export function quickDirectory(directory: string): DirectorySource {
  return new DirectorySource({
    kinds: resourceKinds,
    directory,
    namespace: 'default',
    clock: systemClock,
    logger,
    times: quick,
  });
}

/** A source over the database with quick times. */
export function quickDatabase(store: Store, onExternalChange: ExternalChangeReport = () => undefined): DatabaseSource {
  return new DatabaseSource({
    kinds: resourceKinds,
    store,
    namespace: 'default',
    clock: systemClock,
    logger,
    pollMs: 50,
    onExternalChange: (resource, fields) =>
      onExternalChange({ resource, cluster: registryNameOf(resource), outcome: 'adopted', fields }),
  });
}

/** Makes and starts an operator. */
export async function startOperator(
  store: Store,
  sourceOf: ResourceSource | ((onExternalChange: ExternalChangeReport) => ResourceSource),
  options: RigOptions = {},
): Promise<OperatorRig> {
  const table = new RoutingTableHolder();
  const replica = randomUUID();
  const leadership = new DatabaseLeadership({
    store,
    holder: replica,
    clock: systemClock,
    logger,
    retryMs: 100,
    ...(options.leaderTtlMs === undefined ? {} : { ttlMs: options.leaderTtlMs }),
  });
  const { metrics = operatorMetrics(new Registry()), logger: controllerLogger = logger } = options.controller ?? {};
  const findings = new Findings();
  const onExternalChange = externalChangeReport(findings, systemClock, controllerLogger, metrics);
  const source = typeof sourceOf === 'function' ? sourceOf(onExternalChange) : sourceOf;
  const { groups } = options;
  const effects =
    groups === undefined
      ? null
      : groupApplier(groups, store.groupOwners, () => controller.outcomes, findings, logger, 100);
  const controller: Controller = new Controller({
    kinds: resourceKinds,
    services: noServices,
    addresses: openAddresses,
    source,
    store,
    table,
    rules: { compiler: defaultRuleCompiler(), file: null },
    leadership,
    allowedServiceNamespaces: [],
    defaultRoutingGroup: 'adhoc',
    unmanagedRows: 'serve',
    deletionGuard: defaultDeletionGuard,
    findings,
    onExternalChange,
    clock: systemClock,
    random: Math.random,
    logger,
    metrics,
    statusIntervalMs: 50,
    rowPollMs: 100,
    writeIntervalMs: 20,
    confirmEmptyMs: 300,
    startTimeoutMs: 2_000,
    ...(effects === null ? {} : { effects }),
    ...options.controller,
  });
  const { apiWrites = 'enabled', addresses = openAddresses } = options.registry ?? {};
  const resourceWrites = new ResourceWrites(source, controller, table, addresses, systemClock, apiWrites);
  const registry = new ResourceClusterRegistry(resourceWrites);
  const writes =
    groups === undefined || effects === null
      ? null
      : groupTables(groups, store.groupOwners, effects, resourceWrites, null);
  await controller.start();
  return { source, table, controller, registry, leadership, groups: writes, stop: () => controller.stop() };
}

/** Key of a cluster in the default namespace. */
export const clusterKey = (name: string): ResourceKey => ({ kind: 'EngineCluster', namespace: 'default', name });
