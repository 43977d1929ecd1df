import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { ruleFailureCounter } from '../../gateway/metrics/ruleMetrics.ts';
import { resourceKinds } from '../../kinds/registry.ts';
import { createOperator, type Operator } from '../../operator/operator.ts';
import { RoutingRules } from '../../operator/registry/routingRules.ts';
import { RulesFileWatch } from '../../operator/registry/rulesFile/rulesFileWatch.ts';
import { RoutingTableHolder } from '../../routing/tableHolder.ts';
import { createRuleCompiler } from '../../rules/compiler.ts';
import type { RuleCompiler } from '../../rules/ruleCompiler.ts';
import type { Store } from '../../store/store.ts';
import { clusterPolicy, deletionGuard, ruleCompilerOptions } from '../settings.ts';
import type { GatewayContext } from './context.ts';

/** What maintains the routing table. */
export interface Control {
  readonly table: RoutingTableHolder;
  readonly operator: Operator;
  readonly routingRules: RoutingRules;
  readonly compiler: RuleCompiler;
  /** Reads the rules file and starts to watch the resources. */
  start(): Promise<void>;
}

/** Makes the operator with its rule compiler and, where one is configured, the rules file; `start` it later. */
export async function openControl(context: GatewayContext, store: Store): Promise<Control> {
  const { config, current, names, metrics, clock, random, logger, onClose } = context;
  const table = new RoutingTableHolder();
  const compiler = createRuleCompiler({
    ...ruleCompilerOptions(config),
    live: () => ruleCompilerOptions(current()),
    names,
    onRuleFailure: (failure) => {
      logger.warn(failure, 'a rule failed');
      if (failure.origin === 'resource') operator.controller.reportRuleFailure(failure.rule, failure.message);
    },
    countFailure: ruleFailureCounter(metrics),
    monotonic: () => clock.monotonic(),
  });
  const ruleContext = { names, analyzeRequest: config.requestAnalyzerConfig.analyzeRequest };
  const { rulesType, rulesConfigPath, rulesEngineEnabled } = config.routingRules;
  const rulesFile =
    rulesType === 'EXTERNAL' || rulesConfigPath === null
      ? null
      : new RulesFileWatch({
          path: rulesConfigPath,
          refreshPeriod: () => current().routingRules.rulesRefreshPeriod,
          check: (file) => compiler.prepareFile(file),
          onChange: () => operator.controller.rulesFileChanged(),
          clock,
          logger,
        });
  onClose(() => rulesFile?.stop());
  // Before the operator, so that the first rule set has the file's rules; its listener is there by the first change.
  const operator: Operator = await createOperator({
    resources: config.resources,
    kinds: resourceKinds,
    apiWrites: () => current().resources.apiWrites,
    allowedServiceNamespaces: () => current().resources.allowedServiceNamespaces,
    defaultRoutingGroup: () => current().routing.defaultRoutingGroup,
    policy: () => clusterPolicy(current()),
    deletionGuard: () => deletionGuard(current()),
    foreignWrites: () => current().resources.foreignWrites,
    store,
    table,
    compiler,
    rulesFile: () => rulesFile?.current ?? null,
    instance: `${hostname()}-${randomUUID()}`,
    clock,
    random,
    logger,
    metrics,
  });
  onClose(() => operator.stop());
  context.onChange(() => operator.controller.rulesFileChanged());
  const routingRules = new RoutingRules({
    source: operator.source,
    controller: operator.controller,
    file: rulesFile,
    rulesType,
    rulesEngineEnabled: rulesEngineEnabled ?? undefined,
    context: ruleContext,
    apiWrites: () => current().resources.apiWrites,
  });
  return {
    table,
    operator,
    routingRules,
    compiler,
    async start() {
      await rulesFile?.start();
      await operator.start();
    },
  };
}
