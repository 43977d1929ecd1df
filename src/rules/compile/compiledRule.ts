import type { RuleTrace } from '../decision.ts';
import { textDifferences } from '../differences/textDifferences.ts';
import type { Block } from '../language/ast.ts';
import { CompileBudget } from '../language/compileBudget.ts';
import { parse } from '../language/parser.ts';
import { compileBlock, type Program } from '../language/program.ts';
import { AnalysisDisabledError, type CompileContext } from '../language/scope.ts';
import { CompileError, type Position, positionOf, UnavailableError } from '../language/source.ts';
import { type IndexKey, neededKeys } from './conditionKeys.ts';
import { neverBoolean } from './conditionType.ts';
import type { RuleDefinition, RuleText } from './definition.ts';
import { literalGroups, literalHeaders, unknownResultKeys } from './resultKeys.ts';
import { ruleReads } from './ruleReads.ts';
import { ruleVersion } from './ruleVersion.ts';

export interface CompiledRule {
  readonly definition: RuleDefinition;
  readonly condition: Program;
  readonly actions: readonly { readonly field: string; readonly program: Program }[];
  /** Values that its condition needs to be true, for the index; null if unknown. The parsed text is discarded. */
  readonly neededKeys: readonly IndexKey[] | null;
  /** Sources that condition and actions read (`ruleReads`); null if unknown. */
  readonly reads: readonly string[] | null;
  readonly needsAnalysis: boolean;
  /** Valid code that may behave differently than intended. */
  readonly warnings: readonly RuleWarning[];
  /** Hash of the rule's content (`ruleVersion`). */
  readonly version: number;
  /** Headers that its texts name by a literal, in lower case. */
  readonly headers: readonly string[];
  readonly groups: readonly string[];
  readonly notMatched: RuleTrace;
  readonly skipped: RuleTrace;
}

/** Code that fails at evaluation, such as an unknown variable, or means something else in Trino Gateway. */
export interface RuleWarning {
  readonly field: string;
  readonly message: string;
  /** The rule cannot work: `config` and `validate` report a mistake. It is loaded, as Trino Gateway loads it. */
  readonly isMistake?: true;
  /** Position in the field's text, or null. */
  readonly inText: Position | null;
  /** Line in the file; for resources in the field's text. */
  readonly line: number;
  readonly column: number;
}

/** An error that prevents compilation. */
export interface RuleProblem {
  readonly field: string;
  readonly message: string;
  /** Line in the file; for resources in the field's text. */
  readonly line: number;
  readonly column: number;
  readonly analysisDisabled: boolean;
  /** True if only this rule is rejected: Trino Gateway loads it. */
  readonly unavailable: boolean;
}

export function compileRule(
  definition: RuleDefinition,
  context: CompileContext,
): { readonly rule: CompiledRule } | { readonly problems: readonly RuleProblem[] } {
  const problems: RuleProblem[] = [];
  const budget = new CompileBudget();
  const parsed = (text: RuleText): { readonly block: Block; readonly program: Program } | null => {
    try {
      const block = parse(text.text, budget, context.names);
      return { block, program: compileBlock(text.text, block, context, budget) };
    } catch (error) {
      if (!(error instanceof CompileError)) throw error;
      problems.push(problemOf(text, error));
      return null;
    }
  };
  const condition = parsed(definition.condition);
  const actions = definition.actions.map((text) => ({ text, field: text.field, parsed: parsed(text) }));
  if (condition === null || problems.length > 0) return { problems };
  const compiled = actions.flatMap(({ text, field, parsed }) => (parsed === null ? [] : [{ text, field, ...parsed }]));
  const all = [condition, ...compiled];
  const isDeny = definition.deny !== null;
  const base = { rule: definition.name, origin: definition.origin, priority: definition.priority };
  return {
    rule: {
      definition,
      condition: condition.program,
      actions: compiled.map(({ field, program }) => ({ field, program })),
      neededKeys: neededKeys(condition.block, isDeny, context.names),
      reads: ruleReads(
        all.map(({ block }) => block),
        isDeny,
        context.names,
      ),
      warnings: [
        ...typeMistakes(definition.condition, condition.block),
        ...textWarnings(definition.condition, condition, 'condition', context),
        ...compiled.flatMap(({ text, ...action }) => textWarnings(text, action, 'action', context)),
      ],
      version: ruleVersion(definition),
      headers: [...new Set(all.flatMap(({ block }) => literalHeaders(block, context.names)))],
      groups: [...new Set(compiled.flatMap(({ block }) => literalGroups(block)))],
      needsAnalysis: all.some(({ program }) => program.readsUser || program.readsQuery),
      notMatched: Object.freeze({ ...base, outcome: 'not-matched' }),
      skipped: Object.freeze({ ...base, outcome: 'skipped' }),
    },
  };
}

function typeMistakes(text: RuleText, block: Block): readonly RuleWarning[] {
  const offset = neverBoolean(block);
  if (offset === null) return [];
  const inText = positionOf(text.text, offset);
  const message =
    'is neither true nor false for any request, so that the rule always fails; compare the value, such as request.getHeader("X-Trino-Source") == "etl"';
  return [{ field: text.field, message, isMistake: true, inText, ...inFile(text, inText) }];
}

function textWarnings(
  text: RuleText,
  { block, program }: { readonly block: Block; readonly program: Program },
  part: 'condition' | 'action',
  context: CompileContext,
): readonly RuleWarning[] {
  const differences = context.differenceWarnings === false ? [] : textDifferences(block, part, context.names);
  return [...program.warnings, ...unknownResultKeys(block), ...differences].map(({ message, offset }) => {
    const inText = positionOf(text.text, offset);
    return { field: text.field, message, inText, ...inFile(text, inText) };
  });
}

function inFile({ place }: RuleText, { line, column }: Position): Position {
  if (place === null) return { line, column };
  return {
    line: place.line + line - 1,
    column: line === 1 ? place.column + column - 1 : (place.indent ?? 1) + column - 1,
  };
}

function problemOf(text: RuleText, error: CompileError): RuleProblem {
  const analysisDisabled = error instanceof AnalysisDisabledError;
  const unavailable = error instanceof UnavailableError;
  const { field } = text;
  return {
    field,
    message: error.message,
    ...inFile(text, positionOf(text.text, error.offset)),
    analysisDisabled,
    unavailable,
  };
}
