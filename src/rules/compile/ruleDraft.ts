import { DEFAULT_PRIORITY, type Deny, type RouteTo } from '../../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../../model/errors.ts';
import type { CompileContext } from '../language/scope.ts';
import { compileRule, type RuleProblem } from './compiledRule.ts';
import { plainRule, type RuleDefinition } from './definition.ts';

/** A rule from a REST call, not stored yet. Absent and null fields have their defaults. */
export interface RuleDraft {
  readonly name: string;
  readonly description?: string;
  readonly priority?: number | null;
  readonly condition: string;
  readonly actions: readonly string[];
  readonly routeTo?: RouteTo | null;
  readonly deny?: Deny | null;
  readonly whenUnavailable?: 'Fallback' | 'Reject';
  readonly stop?: boolean;
  readonly suspend?: boolean;
}

/** The definition of a draft; positions of its mistakes refer to its texts. */
export function draftDefinition(draft: RuleDraft, origin: RuleDefinition['origin']): RuleDefinition {
  const text = (content: string, field: string) => ({ text: content, field, place: null });
  const { deny } = draft;
  return {
    name: draft.name,
    origin,
    namespace: plainRule.namespace,
    stage: plainRule.stage,
    description: draft.description ?? '',
    priority: draft.priority ?? DEFAULT_PRIORITY,
    condition: text(draft.condition, 'condition'),
    actions: draft.actions.map((action, index) => text(action, `actions[${index}]`)),
    routeTo: draft.routeTo ?? null,
    deny: deny == null ? null : { message: deny.message, whenError: deny.whenError ?? 'Reject' },
    whenUnavailable: draft.whenUnavailable ?? plainRule.whenUnavailable,
    stop: draft.stop ?? plainRule.stop,
    suspend: draft.suspend ?? plainRule.suspend,
  };
}

/** Compile errors of a draft, with positions in its texts; empty if it compiles. */
export function draftProblems(draft: RuleDraft, context: CompileContext): readonly PlacedProblem[] {
  const compiled = compileRule(draftDefinition(draft, 'file'), context);
  return 'rule' in compiled ? [] : placedProblems(compiled.problems);
}

/** Mistakes of a rule in the form of responses. */
export function placedProblems(problems: readonly RuleProblem[]): readonly PlacedProblem[] {
  return problems.map(({ field, message, line, column }) => ({ field, message, line, column }));
}

export function placedText(problems: readonly PlacedProblem[]): string {
  return problems
    .map(({ field, line, column, message }) => `${field}, line ${line}, column ${column}: ${message}`)
    .join('; ');
}
