import { productNames } from '../../src/model/names.ts';
import type { RuleCompiler } from '../../src/rules/ruleCompiler.ts';
import { createRuleCompiler } from '../../src/rules/set/compiler.ts';

/** The rule compiler as a gateway with default settings has it. */
export function defaultRuleCompiler(): RuleCompiler {
  return createRuleCompiler({
    names: productNames('Engine'),
    rulesEngineEnabled: undefined,
    rulesType: 'FILE',
    analyzeRequest: false,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => performance.now(),
  });
}
