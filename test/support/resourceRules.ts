import type { RoutingRule, RoutingRuleSpec } from '../../src/kinds/routingRule/spec.ts';
import { productNames } from '../../src/model/names.ts';
import { createRuleCompiler } from '../../src/rules/compiler.ts';
import type { RuleCompiler, RuleCompilerOptions } from '../../src/rules/ruleCompiler.ts';

/** The rule compiler as a gateway with default settings has it, but for what is given. */
export function defaultRuleCompiler(options: Partial<RuleCompilerOptions> = {}): RuleCompiler {
  return createRuleCompiler({
    names: productNames('Engine'),
    rulesEngineEnabled: undefined,
    rulesType: 'FILE',
    analyzeRequest: false,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => performance.now(),
    ...options,
  });
}

/** A RoutingRule resource that matches everything where the spec does not say otherwise; `uid` follows the name. */
export function resourceRule(
  name: string,
  spec: Partial<RoutingRuleSpec>,
  createdAt = '2026-01-01T00:00:00Z',
): RoutingRule {
  return {
    apiVersion: 'enginegateway.dev/v1beta1',
    kind: 'RoutingRule',
    metadata: {
      name,
      namespace: 'default',
      uid: `uid-${name}`,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: createdAt,
    },
    spec: { condition: 'true', ...spec },
  };
}
