import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { SharedCounts } from '../../gateway/admission/sharedCounts.ts';
import { ClusterChanges } from '../../gateway/health/clusterChanges.ts';
import { ruleFailureCounter } from '../../gateway/metrics/ruleMetrics.ts';
import { resourceKinds } from '../../kinds/registry.ts';
import { createOperator, type Operator } from '../../operator/operator.ts';
import { RoutingRules } from '../../operator/registry/routingRules.ts';
import { RulesFileWatch } from '../../operator/registry/rulesFile/rulesFileWatch.ts';
import { RoutingTableHolder } from '../../routing/tableHolder.ts';
import { createRuleCompiler } from '../../rules/compiler.ts';
import type { RuleCompilerOptions } from '../../rules/ruleCompiler.ts';
import { databaseName } from '../../store/jdbcUrl.ts';
import { clusterPolicy, databaseSettings, deletionGuard, ruleCompilerOptions } from '../settings.ts';
import type { GatewayContext } from './context.ts';
import type { Storage } from './storage.ts';

/** Creates the operator with its rule compiler and the rules file, if configured; `start` it later. */
export async function openControl(
  context: GatewayContext,
  { store, auditWriter, groupTables }: Pick<Storage, 'store' | 'auditWriter' | 'groupTables'>,
) {
  const { config, names, metrics, clock, random, logger, onClose } = context;
  const table = new RoutingTableHolder();
  const clusterChanges = new ClusterChanges(table, clock);
  const counts = new SharedCounts({ table, repository: store.limitCounts, logger });
  onClose(() => counts.stop());
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    names,
    onRuleFailure: (failure) => {
      logger.warn(failure, 'rule failed');
      if (failure.origin === 'resource') operator.controller.reportRuleFailure(failure.rule, failure.message);
    },
    onRuleWarnings: (rules) => logRuleWarnings(rules, logger),
    countFailure: ruleFailureCounter(metrics),
    monotonic: () => clock.monotonic(),
  });
  const { analyzeRequest, differenceWarnings } = ruleCompilerOptions(config);
  const ruleContext = { names, analyzeRequest, differenceWarnings: differenceWarnings !== false };
  const { rulesType, rulesConfigPath, rulesEngineEnabled } = config.routingRules;
  const rulesFile =
    rulesType === 'EXTERNAL' || rulesConfigPath === null
      ? null
      : new RulesFileWatch({
          path: rulesConfigPath,
          defaultPriority: config.routingRules.defaultPriority ?? undefined,
          refreshPeriod: config.routingRules.rulesRefreshPeriod,
          check: (file) => compiler.prepareFile(file),
          onChange: () => operator.controller.rulesFileChanged(),
          clock,
          logger,
        });
  onClose(() => rulesFile?.stop());
  // Before the operator, so that the first rule set has the file's rules; the listener exists before the first change.
  const operator: Operator = await createOperator({
    resources: config.resources,
    kinds: resourceKinds,
    apiWrites: config.resources.apiWrites,
    allowedServiceNamespaces: config.resources.allowedServiceNamespaces,
    discoveryNamespaces: config.resources.discovery.namespaces,
    defaultRoutingGroup: config.routing.defaultRoutingGroup,
    policy: clusterPolicy(config),
    deletionGuard: deletionGuard(config),
    store,
    auditWriter,
    resourceGroups: groupTables,
    ownDatabase: databaseName(databaseSettings(config)),
    table,
    compiler,
    rulesFile: () => rulesFile?.current ?? null,
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
      await rulesFile?.start();
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
