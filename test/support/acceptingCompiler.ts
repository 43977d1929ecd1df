import { keyOf, keyText } from '../../src/model/resource.ts';
import type { CompiledRules, RuleCompiler } from '../../src/rules/ruleCompiler.ts';

/** A compiler that takes every rule as it is, for tests of what is around rules, not of them. */
export function acceptingCompiler(): RuleCompiler {
  return {
    compile: (resources): CompiledRules => ({
      ruleSet: null,
      verdicts: new Map(
        resources.map((resource) => [
          keyText(keyOf(resource)),
          {
            rule: resource.spec.name ?? resource.metadata.name,
            accepted: true,
            acceptedReason: 'Accepted',
            message: 'the rule compiles',
            inForce: 'current',
            programmed: true,
            programmedReason: 'Programmed',
            programmedMessage: 'the rule is asked',
          },
        ]),
      ),
      fileProblems: [],
      fileState: 'absent',
      order: [],
    }),
  };
}
