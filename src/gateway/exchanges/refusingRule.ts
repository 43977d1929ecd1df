import type { ProductNames } from '../../model/names.ts';
import { headerName } from '../../rules/compile/requestValues.ts';
import { readValues } from '../../rules/decide/readValues.ts';
import type { ReadCondition, ReadValue, RuleCondition, RuleRequest, RuleSet } from '../../rules/decision.ts';
import { isSecretHeader } from './requestFacts.ts';

/** Characters of a condition that are kept with a query. */
const MAX_CONDITION_LENGTH = 4_096;

/** Conditions by name of their rule, of each rule set that rejected something. */
const conditionsBySet = new WeakMap<RuleSet, ReadonlyMap<string, RuleCondition>>();

/**
 * The condition of a rule that rejected a request, with the values that it read, to be kept with the query. Values that
 * may be secret, and those that are kept of no request (docs/rules.md#impact), are left out.
 * @param rule null for none
 * @param rules those that the request was decided by; null for none
 */
export function conditionsOf(
  rule: string | null,
  rules: RuleSet | null,
  request: RuleRequest,
  names: ProductNames,
): readonly ReadCondition[] {
  const present = rule === null || rules === null ? undefined : conditionsIn(rules).get(rule);
  if (present === undefined) return [];
  const condition = present.condition.slice(0, MAX_CONDITION_LENGTH);
  const values = readValues(present.condition, request, { names, analyzeRequest: request.user !== null });
  return [{ ...present, condition, values: values.filter(mayBeKept) }];
}

function mayBeKept({ source }: ReadValue): boolean {
  if (source === null) return false;
  const header = headerName(source);
  return header === null || !isSecretHeader(header);
}

function conditionsIn(rules: RuleSet): ReadonlyMap<string, RuleCondition> {
  let byName = conditionsBySet.get(rules);
  if (byName === undefined) {
    byName = new Map(rules.conditions?.().map((each) => [each.rule, each]));
    conditionsBySet.set(rules, byName);
  }
  return byName;
}
