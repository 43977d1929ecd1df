import type { OverviewProblem, ProblemList } from '../../answers/overview.ts';

/** Problems of one kind that are listed; the number of all of them is in addition to the list. */
const MAX_LISTED = 20;

/** Kinds in the order in which a user on call looks at them. */
const order: readonly OverviewProblem['kind'][] = [
  'DatabaseUnavailable',
  'SourceUnavailable',
  'GroupUnavailable',
  'ErrorRate',
  'ClusterUnhealthy',
  'QueueGrowing',
  'RulesFileRejected',
  'RuleRejected',
  'RuleUnresolved',
  'ClusterRejected',
  'NoLeader',
  'ExternalRulesUnavailable',
  'DeletionsHeld',
  'HistoryWaiting',
  'SourceMistakes',
];

/** The problems as they get a response: critical ones first, and at most so many of a kind. Pure. */
export function problemList(all: readonly OverviewProblem[], asOf: number): ProblemList {
  const sorted = [...all].sort(
    (a, b) =>
      rank(a) - rank(b) || order.indexOf(a.kind) - order.indexOf(b.kind) || (a.object.name < b.object.name ? -1 : 1),
  );
  const totals = new Map<OverviewProblem['kind'], number>();
  const problems = sorted.filter(({ kind }) => {
    const count = (totals.get(kind) ?? 0) + 1;
    totals.set(kind, count);
    return count <= MAX_LISTED;
  });
  return {
    asOf: new Date(asOf).toISOString(),
    verdict: sorted[0]?.severity ?? 'ok',
    total: all.length,
    counts: [...totals].map(([kind, total]) => ({ kind, total })),
    problems,
  };
}

function rank({ severity }: OverviewProblem): number {
  return severity === 'critical' ? 0 : 1;
}

/** Most objects of one list of a problem; the number of all is next to it. */
const MAX_AFFECTED = 20;

/** Affected objects of a problem, in the response's form. */
export type Affected = Pick<OverviewProblem, 'groups' | 'groupCount' | 'rules' | 'ruleCount'>;

export function affected(groups: Iterable<string>, rules: Iterable<string>): Affected {
  const [allGroups, allRules] = [[...new Set(groups)].sort(), [...new Set(rules)].sort()];
  return {
    groups: allGroups.slice(0, MAX_AFFECTED),
    groupCount: allGroups.length,
    rules: allRules.slice(0, MAX_AFFECTED),
    ruleCount: allRules.length,
  };
}

/** A time as the response has it; null if it is not known. */
export function timeText(epochMillis: number | null): string | null {
  return epochMillis === null ? null : new Date(epochMillis).toISOString();
}
