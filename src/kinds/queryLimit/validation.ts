import { durationProblem } from '../../model/durationField.ts';
import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { textMatcher } from '../../rules/textMatcher.ts';
import { matchFields } from './limitMatch.ts';
import { NOTHING_LIMITED, periodBounds, QueryLimitSpec } from './spec.ts';

const checkSpec = compileCheck(QueryLimitSpec, 'spec');

/** Mistakes in the spec of a QueryLimit. Regular expressions are compiled where all else is right. */
export function limitProblems(spec: unknown): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  if (spec.maxRunning === undefined && spec.maxQueued === undefined && spec.rate === undefined) {
    problems.push({ field: 'spec.maxRunning', message: `is missing: ${NOTHING_LIMITED}` });
  }
  const period = isRecord(spec.rate) ? durationProblem('period', spec.rate.period, periodBounds) : null;
  if (period !== null) problems.push({ field: 'spec.rate.period', message: period.slice('period '.length) });
  return checked.ok ? [...problems, ...valueProblems(checked.value.match ?? {})] : problems;
}

function valueProblems(match: NonNullable<QueryLimitSpec['match']>): readonly Problem[] {
  return matchFields.flatMap((field) => {
    const matcher = textMatcher(match[field] ?? []);
    if ('matches' in matcher) return [];
    return matcher.problems.map(({ index, message }) => ({ field: `spec.match.${field}[${index}]`, message }));
  });
}
