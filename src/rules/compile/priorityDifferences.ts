import { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import type { RulesFile, RulesFileProblem } from '../ruleCompiler.ts';
import type { RuleDocument } from './rulesFile.ts';

export const REFERENCE_PRIORITY = 0;

/**
 * Returns a warning for each rule of a file without a priority that Trino Gateway evaluates in another order. Empty if
 * the order of all rules is equal, or if the file's default was chosen.
 */
export function priorityDifferences(
  { path, defaultPriority }: RulesFile,
  documents: readonly RuleDocument[],
): readonly RulesFileProblem[] {
  if (defaultPriority !== undefined || documents.every(({ hasPriority }) => !hasPriority)) return [];
  const moved: RulesFileProblem[] = [];
  // Rules that are evaluated before a rule without priority here, and after it there.
  const between = documents.find(
    ({ hasPriority, rule: { priority } }) =>
      hasPriority && priority > REFERENCE_PRIORITY && priority < DEFAULT_PRIORITY,
  );
  const lastZero = documents.findLast(({ hasPriority, rule }) => hasPriority && rule.priority === REFERENCE_PRIORITY);
  const firstHighest = documents.find(({ hasPriority, rule }) => hasPriority && rule.priority === DEFAULT_PRIORITY);
  for (const { document, hasPriority, place, rule } of documents) {
    if (hasPriority) continue;
    const laterZero = lastZero !== undefined && lastZero.document > document ? lastZero : undefined;
    const earlierHighest = firstHighest !== undefined && firstHighest.document < document ? firstHighest : undefined;
    const other = between ?? laterZero ?? earlierHighest;
    if (other === undefined) continue;
    const { name, priority } = other.rule;
    moved.push({
      effect: 'warning',
      path,
      document,
      ...place,
      rule: rule.name,
      message: `priority is missing while "${name}" has ${priority}: Trino Gateway takes it as ${REFERENCE_PRIORITY} and asks this rule before "${name}", here it is ${DEFAULT_PRIORITY} and asked after it, and the last rule that sets a group decides; write a priority, or set routingRules.defaultPriority`,
    });
  }
  return moved;
}
