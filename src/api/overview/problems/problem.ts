import type { OverviewProblem } from '../../answers/overview.ts';

/** Most objects of one list of a problem; the number of all of them is beside it. */
const MAX_AFFECTED = 20;

/** What a problem affects, as the answer has it. */
export type Affected = Pick<OverviewProblem, 'groups' | 'groupCount' | 'rules' | 'ruleCount'>;

/** Lists of routing groups and rules as a problem has them, each name once. */
export function affected(groups: Iterable<string>, rules: Iterable<string>): Affected {
  const [allGroups, allRules] = [[...new Set(groups)].sort(), [...new Set(rules)].sort()];
  return {
    groups: allGroups.slice(0, MAX_AFFECTED),
    groupCount: allGroups.length,
    rules: allRules.slice(0, MAX_AFFECTED),
    ruleCount: allRules.length,
  };
}

/** A time as the answer has it; null where it is not known. */
export function timeText(epochMillis: number | null): string | null {
  return epochMillis === null ? null : new Date(epochMillis).toISOString();
}
