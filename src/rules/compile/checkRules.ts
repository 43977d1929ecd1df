import type { CompileContext } from '../language/scope.ts';
import { positionOf } from '../language/source.ts';
import type { RulesFile, RulesFileProblem } from '../ruleCompiler.ts';
import { type CompiledRule, compileRule, type RuleProblem } from './compiledRule.ts';
import type { RuleDefinition, RuleText } from './definition.ts';
import { parseRulesFile } from './rulesFile.ts';

/** What checking a rules file found. */
export interface RulesFileCheck {
  readonly rules: readonly RuleDefinition[];
  /** Mistakes, each with what it does to the file (`effect`). */
  readonly problems: readonly RulesFileProblem[];
  /** What loads, but fails when it is reached, such as unknown variables. */
  readonly warnings: readonly RulesFileProblem[];
}

/** Reads and compiles a rules file without taking it into force. Pure. */
export function checkRulesFile(file: RulesFile, context: CompileContext): RulesFileCheck {
  const { documents, problems: parsed } = parseRulesFile(file);
  const problems = parsed.filter(({ effect }) => effect !== 'warning');
  const warnings = parsed.filter(({ effect }) => effect === 'warning');
  for (const { rule, document } of documents) {
    const compiled = compileRule(rule, context);
    const at = { path: file.path, document, rule: rule.name };
    if ('rule' in compiled) {
      warnings.push(...warningsOf(compiled.rule).map((warning) => ({ effect: 'warning' as const, ...at, ...warning })));
      continue;
    }
    problems.push(...fileProblems(compiled.problems, at));
  }
  return { rules: documents.map(({ rule }) => rule), problems, warnings };
}

/** Mistakes of a rule's texts as those of its file: any that no gateway of this kind loads keep the whole file out. */
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

/** Warnings of a compiled rule with their places. */
export function warningsOf({
  definition,
  condition,
  actions,
}: CompiledRule): readonly { line: number; column: number; message: string }[] {
  const texts: readonly (readonly [RuleText | undefined, CompiledRule['condition']])[] = [
    [definition.condition, condition],
    ...actions.map(({ field, program }) => [definition.actions.find((text) => text.field === field), program] as const),
  ];
  return texts.flatMap(([text, program]) =>
    program.warnings.map(({ message, offset }) => {
      const position = positionOf(program.source, offset);
      const place = text?.place ?? null;
      const column =
        place === null
          ? position.column
          : (position.line === 1 ? place.column : (place.indent ?? 1)) + position.column - 1;
      const line = place === null ? position.line : place.line + position.line - 1;
      return { line, column, message: `${text?.field ?? 'text'}: ${message}` };
    }),
  );
}
