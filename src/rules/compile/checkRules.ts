import type { CompileContext } from '../language/scope.ts';
import type { RulesFile, RulesFileProblem } from '../ruleCompiler.ts';
import { type CompiledRule, compileRule, type RuleProblem } from './compiledRule.ts';
import { priorityDifferences } from './priorityDifferences.ts';
import { type ParsedRulesFile, parseRulesFile, type RuleDocument, runSteps } from './rulesFile.ts';

export interface RulesFileCheck {
  readonly documents: readonly RuleDocument[];
  readonly problems: readonly RulesFileProblem[];
  /** Rules that load but fail when they are evaluated, such as with unknown variables. */
  readonly warnings: readonly RulesFileProblem[];
}

export interface CompiledRulesFile {
  /** Rules of the documents that compile. */
  readonly rules: readonly CompiledRule[];
  /** Mistakes and warnings; those about the file's form, such as a missing description, come last, as lists are cut. */
  readonly findings: readonly RulesFileProblem[];
  /** Warnings that the rule cannot work. */
  readonly mistakes: ReadonlySet<RulesFileProblem>;
}

/** Compiles the documents of a rules file, one in each step. */
export function* compileRulesFile(
  file: RulesFile,
  { documents, problems }: ParsedRulesFile,
  context: CompileContext,
): Generator<void, CompiledRulesFile> {
  const rules: CompiledRule[] = [];
  const findings = problems.filter(({ effect }) => effect !== 'warning');
  const mistakes = new Set<RulesFileProblem>();
  const differences = context.differenceWarnings === false ? [] : priorityDifferences(file, documents);
  const priorityWarnings = new Map(differences.map((warning) => [warning.document, warning]));
  for (const { rule, document } of documents) {
    yield;
    const at = { path: file.path, document, rule: rule.name };
    const compiled = compileRule(rule, context);
    if ('problems' in compiled) {
      findings.push(...compiled.problems.map((problem) => fileProblem(problem, at)));
      continue;
    }
    const ofPriority = priorityWarnings.get(document);
    if (ofPriority !== undefined) findings.push(ofPriority);
    rules.push(ofPriority === undefined ? compiled.rule : withWarning(compiled.rule, ofPriority));
    for (const { field, message, line, column, isMistake } of compiled.rule.warnings) {
      const warning: RulesFileProblem = { effect: 'warning', ...at, line, column, message: `${field}: ${message}` };
      findings.push(warning);
      if (isMistake === true) mistakes.add(warning);
    }
  }
  findings.push(...problems.filter(({ effect }) => effect === 'warning'));
  return { rules, findings, mistakes };
}

/** Checks a rules file; a rule that loads and cannot work counts as a mistake. */
export function checkRulesFile(file: RulesFile, context: CompileContext): RulesFileCheck {
  const parsed = parseRulesFile(file);
  const { findings, mistakes } = runSteps(compileRulesFile(file, parsed, context));
  const { true: problems = [], false: warnings = [] } = Object.groupBy(findings, (finding) =>
    finding.effect !== 'warning' || mistakes.has(finding) ? 'true' : 'false',
  );
  return {
    documents: parsed.documents,
    problems: problems.map((each) => (mistakes.has(each) ? { ...each, effect: 'ruleLeftOut' } : each)),
    warnings,
  };
}

/**
 * A mistake in a rule's texts as a mistake of its file: mistakes that no gateway of this kind loads reject the whole
 * file.
 */
function fileProblem(
  { field, message, line, column, unavailable }: RuleProblem,
  at: Pick<RulesFileProblem, 'path' | 'document' | 'rule'>,
): RulesFileProblem {
  const effect = unavailable ? 'ruleLeftOut' : 'fileNotLoaded';
  return { effect, ...at, line, column, message: `${field}: ${message}` };
}

/** Adds a warning that concerns none of the rule's texts. */
function withWarning(rule: CompiledRule, { line, column, message }: RulesFileProblem): CompiledRule {
  const warning = { field: 'priority', message, line, column, inText: null };
  return { ...rule, warnings: [warning, ...rule.warnings] };
}
