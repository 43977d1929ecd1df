import type { Problem } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { RoutingRuleSpec } from './spec.ts';

const checkSpec = compileCheck(RoutingRuleSpec, 'spec');

/** Mistakes in the spec of a RoutingRule. Its expressions are compiled elsewhere. */
export function ruleSpecProblems(spec: unknown): readonly Problem[] {
  const checked = checkSpec(spec);
  const problems = checked.ok ? [] : [...checked.problems];
  if (!isRecord(spec)) return problems;
  const ways = ['actions', 'routeTo', 'deny'].filter((field) => spec[field] !== undefined);
  if (ways.length !== 1) {
    problems.push({
      field: ways[1] === undefined ? 'spec.actions' : `spec.${ways[1]}`,
      message: 'exactly one of actions, routeTo and deny must be set',
    });
  }
  if (isRecord(spec.routeTo) && (spec.routeTo.routingGroup === undefined) === (spec.routeTo.cluster === undefined)) {
    problems.push({ field: 'spec.routeTo', message: 'must name exactly one of routingGroup and cluster' });
  }
  return problems;
}
