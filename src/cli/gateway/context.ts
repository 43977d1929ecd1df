import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { SharedCounts } from '../../gateway/admission/sharedCounts.ts';
import { type TrustPeer, trustPeers } from '../../gateway/headers/requestHeaders.ts';
import { ClusterChanges } from '../../gateway/health/clusterChanges.ts';
import { ruleFailureCounter, tenantConflictCounter } from '../../gateway/metrics/dataPlaneMetrics.ts';
import { QueryOutcomes } from '../../gateway/outcomes/queryOutcomes.ts';
import { RunningQueries } from '../../gateway/ownership/runningQueries.ts';
import { resourceKinds } from '../../kinds/registry.ts';
import { type Clock, type Random, systemClock } from '../../model/clock.ts';
import { type ProductNames, productNames } from '../../model/names.ts';
import { SizeEstimates } from '../../model/sizeEstimates.ts';
import { createOperator, type Operator } from '../../operator/operator.ts';
import { RoutingRules } from '../../operator/registry/routingRules.ts';
import { RulesFileWatch } from '../../operator/registry/rulesFile/rulesFileWatch.ts';
import { RoutingTableHolder } from '../../routing/routingTable.ts';
import { createRuleCompiler } from '../../rules/compiler.ts';
import type { RuleCompilerOptions } from '../../rules/ruleCompiler.ts';
import { AuditWriter } from '../../store/auditWriter.ts';
import { databaseName } from '../../store/jdbcUrl.ts';
import { RecordWriter } from '../../store/recordWriter.ts';
import { openStoreWaiting } from '../../store/waitingStore.ts';
import {
  clusterAddresses,
  databaseSettings,
  deletionGuard,
  historySettings,
  ruleCompilerOptions,
} from '../settings.ts';

export interface GatewayOptions {
  readonly config: GatewayConfig;
  readonly version: string;
  readonly logger: Logger;
  readonly environment: Environment;
}

/** Shared context of all parts of a gateway: configuration, names, clock, log, metrics, and cleanup. */
export interface GatewayContext extends GatewayOptions {
  readonly names: ProductNames;
  readonly metrics: Registry;
  readonly trustPeer: TrustPeer;
  readonly clock: Clock;
  readonly random: Random;
  /** Name of this process in tables of replicas: unique among replicas and restarts, at most 64 characters. */
  readonly replica: string;
  /** Milliseconds since 1970 at which the gateway was started. */
  readonly startedAt: number;
  readonly stopping: () => boolean;
  /** Registers a cleanup; cleanups run in reverse order when the context closes. */
  onClose(step: () => unknown): void;
}

export interface OpenContext {
  readonly context: GatewayContext;
  /** Sets `stopping` to true. */
  beginStop(): void;
  close(): Promise<void>;
}

export function openContext(options: GatewayOptions): OpenContext {
  const { config } = options;
  const cleanups = new AsyncDisposableStack();
  let stopping = false;
  return {
    context: {
      ...options,
      names: productNames(config.protocol.productName, config.protocol.clusterHeaders),
      metrics: new Registry(),
      trustPeer: trustPeers(config.serverConfig['http-server.process-forwarded'], config.server.trustedProxies),
      clock: systemClock,
      random: Math.random,
      replica: `${hostname().slice(0, 40)}-${randomUUID().slice(0, 18)}`,
      startedAt: systemClock.now(),
      stopping: () => stopping,
      onClose: (step) =>
        cleanups.defer(async () => {
          await step();
        }),
    },
    beginStop() {
      stopping = true;
    },
    close: () => cleanups.disposeAsync(),
  };
}

/** Time limit for flushing the history at a clean stop; the rest is on disk for the next start. */
const FLUSH_TIMEOUT_MS = 10_000;

/** Maximum number of open databases named by `useSchema`. */
const OPEN_SCHEMAS = 8;

/** Opens the database, or starts to wait for it, and the writer of the history. */
export async function openStorage(context: GatewayContext) {
  const { config, logger, metrics, clock, onClose } = context;
  const store = await openStoreWaiting({
    ...databaseSettings(config),
    runMigrations: config.dataStore.runMigrationsEnabled,
    limits: { maxConnections: config.dataStore.maxConnections },
    logger,
  });
  onClose(() => store.close());
  const writing = {
    ...{ settings: historySettings(config), spillDirectory: config.queryHistory.spillDirectory },
    ...{ logger, registry: metrics, clock },
  };
  const history = new RecordWriter('history', store.history.insert.bind(store.history), writing);
  onClose(() => history.close(FLUSH_TIMEOUT_MS));
  const outcomes = new RecordWriter('outcomes', store.outcomes.put.bind(store.outcomes), writing);
  onClose(() => outcomes.close(FLUSH_TIMEOUT_MS));
  const auditWriter = new AuditWriter(store.audit, config.audit.maxEntries, logger);
  onClose(() => auditWriter.close(FLUSH_TIMEOUT_MS));
  const { runningQueries: running, outcomes: stored } = store;
  const runningQueries = new RunningQueries(running, stored, clock, logger);
  onClose(() => runningQueries.stop());
  runningQueries.start();
  const queryOutcomes = new QueryOutcomes(outcomes, running, stored, metrics, clock, logger);
  onClose(() => queryOutcomes.stop());
  queryOutcomes.start();
  const groupTables = config.resourceGroups.enabled
    ? store.resourceGroups({ allowed: config.resourceGroups.allowedSchemas, maxOpen: OPEN_SCHEMAS })
    : null;
  onClose(() => groupTables?.close());
  const estimates = new SizeEstimates();
  return { store, history, outcomes, queryOutcomes, auditWriter, runningQueries, groupTables, estimates };
}

export type Storage = Awaited<ReturnType<typeof openStorage>>;

/** Creates the operator with its rule compiler and the rules file, if configured; `start` it later. */
export async function openControl(
  context: GatewayContext,
  { store, auditWriter, groupTables }: Pick<Storage, 'store' | 'auditWriter' | 'groupTables'>,
) {
  const { config, names, metrics, clock, random, logger, onClose } = context;
  const table = new RoutingTableHolder();
  const clusterChanges = new ClusterChanges(table, clock);
  const counts = new SharedCounts(table, store.limitCounts, logger);
  onClose(() => counts.stop());
  const conflicts = tenantConflictCounter(metrics);
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    names,
    onRuleFailure: (failure) => {
      logger.warn(failure, 'rule failed');
      if (failure.origin === 'resource') operator.controller.reportRuleFailure(failure.rule, failure.message);
    },
    onRuleWarnings: (rules) => logRuleWarnings(rules, logger),
    countFailure: ruleFailureCounter(metrics),
    onTenantConflict: (tenants) => {
      conflicts.inc();
      operator.controller.reportTenantConflict(tenants);
    },
    monotonic: () => clock.monotonic(),
  });
  const { analyzeRequest, differenceWarnings } = ruleCompilerOptions(config);
  const ruleContext = { names, analyzeRequest, differenceWarnings: differenceWarnings !== false };
  const { rulesType, rulesConfigPath, rulesEngineEnabled, defaultPriority } = config.routingRules;
  const rulesFile =
    rulesType === 'EXTERNAL' || rulesConfigPath === null
      ? null
      : new RulesFileWatch(
          { path: rulesConfigPath, defaultPriority: defaultPriority ?? undefined },
          (file) => compiler.prepareFile(file),
          () => operator.controller.scheduleRefresh(),
          logger,
        );
  onClose(() => rulesFile?.stop());
  // Before the operator: the first rule set has the file's rules; the listener exists before the first change.
  const operator: Operator = await createOperator({
    resources: config.resources,
    kinds: resourceKinds,
    apiWrites: config.resources.apiWrites,
    allowedServiceNamespaces: config.resources.allowedServiceNamespaces,
    discoveryNamespaces: config.resources.discovery.namespaces,
    defaultRoutingGroup: config.routing.defaultRoutingGroup,
    addresses: clusterAddresses(config),
    deletionGuard: deletionGuard(config),
    store,
    auditWriter,
    resourceGroups: groupTables,
    ownDatabase: databaseName(databaseSettings(config)),
    table,
    rules: { compiler, file: rulesFile },
    admissionCounts: counts,
    instance: `${hostname()}-${randomUUID()}`,
    clock,
    random,
    logger,
    metrics,
  });
  onClose(() => operator.stop());
  const routingRules = new RoutingRules({
    writes: operator.writes,
    defaultRoutingGroup: config.routing.defaultRoutingGroup,
    file: rulesFile,
    rulesType,
    rulesEngineEnabled: rulesEngineEnabled ?? undefined,
    context: ruleContext,
  });
  return {
    counts,
    table,
    clusterChanges,
    operator,
    routingRules,
    compiler,
    /** Reads the rules file and starts to watch the resources. */
    async start(): Promise<void> {
      await rulesFile?.start(config.routingRules.rulesRefreshPeriod);
      await operator.start();
      counts.start();
    },
  };
}

export type Control = Awaited<ReturnType<typeof openControl>>;

/** Maximum number of logged warnings per compilation; there may be thousands of rules. */
const MAX_LOGGED = 20;

function logRuleWarnings(
  rules: Parameters<NonNullable<RuleCompilerOptions['onRuleWarnings']>>[0],
  logger: Logger,
): void {
  const all = rules.flatMap(({ rule, warnings }) => warnings.map((warning) => ({ rule, ...warning })));
  for (const { message, ...place } of all.slice(0, MAX_LOGGED)) logger.warn(place, `routing rule: ${message}`);
  if (all.length <= MAX_LOGGED) return;
  logger.warn({ count: all.length - MAX_LOGGED }, 'further warnings of routing rules; GET /api/rules lists them');
}
