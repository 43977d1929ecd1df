import type { CompileContext } from '../language/scope.ts';
import type { RulesFile, RulesFileProblem } from '../ruleCompiler.ts';
import { type CompiledRule, compileRule, type RuleProblem } from './compiledRule.ts';
import type { RuleDefinition } from './definition.ts';
import { priorityDifferences } from './priorityDifferences.ts';
import { parseRulesFile, type RuleDocument } from './rulesFile.ts';

export interface RulesFileCheck {
  readonly rules: readonly RuleDefinition[];
  readonly documents: readonly RuleDocument[];
  readonly problems: readonly RulesFileProblem[];
  /** Rules that load but fail when they are evaluated, such as with unknown variables. */
  readonly warnings: readonly RulesFileProblem[];
}

export function checkRulesFile(file: RulesFile, context: CompileContext): RulesFileCheck {
  const { documents, problems: parsed } = parseRulesFile(file);
  const problems = parsed.filter(({ effect }) => effect !== 'warning');
  const warnings = parsed.filter(({ effect }) => effect === 'warning');
  if (context.differenceWarnings !== false) warnings.push(...priorityDifferences(file, documents));
  for (const { rule, document } of documents) {
    const compiled = compileRule(rule, context);
    const at = { path: file.path, document, rule: rule.name };
    if ('rule' in compiled) {
      for (const { field, isMistake, message, line, column } of compiled.rule.warnings) {
        const finding = { ...at, line, column, message: `${field}: ${message}` };
        if (isMistake === true) problems.push({ effect: 'ruleLeftOut', ...finding });
        else warnings.push({ effect: 'warning', ...finding });
      }
      continue;
    }
    problems.push(...fileProblems(compiled.problems, at));
  }
  return { rules: documents.map(({ rule }) => rule), documents, problems, warnings };
}

/**
 * Mistakes in a rule's texts as mistakes of its file: mistakes that no gateway of this kind loads reject the whole
 * file.
 */
export function fileProblems(
  problems: readonly RuleProblem[],
  at: Pick<RulesFileProblem, 'path' | 'document' | 'rule'>,
): readonly RulesFileProblem[] {
  return problems.map(({ field, message, line, column, unavailable }) => ({
    effect: unavailable ? 'ruleLeftOut' : 'fileNotLoaded',
    ...at,
    line,
    column,
    message: `${field}: ${message}`,
  }));
}

export function warningsOf({ warnings }: CompiledRule): readonly { line: number; column: number; message: string }[] {
  return warnings.map(({ field, line, column, message }) => ({ line, column, message: `${field}: ${message}` }));
}
