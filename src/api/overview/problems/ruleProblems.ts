import type { OverviewProblem } from '../../answers/overview.ts';
import { affected, timeText } from './problemList.ts';

export interface RuleFact {
  readonly name: string;
  /** As `GET /api/rules` has it. */
  readonly status: string;
  readonly message: string;
  /** Reason that its target is missing, or null. */
  readonly unresolved: string | null;
  readonly groups: readonly string[];
  /** Cluster that it pins; null: none. */
  readonly cluster: string | null;
}

/** Since when a rule is as it is, milliseconds since 1970; null: not known. */
export type RuleSince = (rule: RuleFact, condition: 'Accepted' | 'ResolvedRefs') => number | null;

/** The rules file, where its last version did not load; null: it did, or it is missing. */
export interface RulesFileFact {
  readonly path: string;
  /** True if the last version that loaded decides; else none of its rules does. */
  readonly isKept: boolean;
  readonly reason: string;
}

export class RuleTargetsIndex {
  readonly #groups = new Map<string, string[]>();
  readonly #clusters = new Map<string, string[]>();

  /** @param rules that are asked */
  constructor(rules: readonly RuleFact[]) {
    for (const { name, groups, cluster } of rules) {
      for (const group of groups) add(this.#groups, group, name);
      if (cluster !== null) add(this.#clusters, cluster, name);
    }
  }

  ofGroup(group: string): readonly string[] {
    return this.#groups.get(group) ?? [];
  }

  ofCluster(cluster: string): readonly string[] {
    return this.#clusters.get(cluster) ?? [];
  }
}

function add(names: Map<string, string[]>, key: string, name: string): void {
  const some = names.get(key);
  if (some === undefined) names.set(key, [name]);
  else some.push(name);
}

const askedStatuses = new Set(['Programmed', 'PreviousVersion']);

export function isAsked({ status }: RuleFact): boolean {
  return askedStatuses.has(status);
}

/** Rules that are rejected, or that lead nowhere, and a rules file that did not load. Pure. */
export function ruleProblems(
  rules: readonly RuleFact[],
  file: RulesFileFact | null,
  since: RuleSince,
): OverviewProblem[] {
  const ofFile: OverviewProblem[] =
    file === null
      ? []
      : [
          {
            kind: 'RulesFileRejected',
            severity: file.isKept ? 'warning' : 'critical',
            object: { kind: 'rulesFile', name: file.path },
            reason: `${file.reason}; ${file.isKept ? 'its last version that loaded decides' : 'none of its rules decides'}`,
            since: null,
            ...affected([], []),
          },
        ];
  return [...ofFile, ...rules.flatMap((rule) => ruleProblem(rule, since))];
}

function ruleProblem(rule: RuleFact, since: RuleSince): OverviewProblem[] {
  const { name, status, message, unresolved, groups } = rule;
  const object = { kind: 'rule', name } as const;
  const of = affected(groups, [name]);
  // Those of a file that did not load are one problem, of the file.
  if (status === 'NotAccepted' || status === 'PreviousVersion') {
    return [
      {
        kind: 'RuleRejected',
        severity: 'warning',
        object,
        reason: status === 'PreviousVersion' ? `${message}; the version before decides` : message,
        since: timeText(since(rule, 'Accepted')),
        ...of,
      },
    ];
  }
  if (unresolved === null || !isAsked(rule)) return [];
  const time = timeText(since(rule, 'ResolvedRefs'));
  return [{ kind: 'RuleUnresolved', severity: 'warning', object, reason: unresolved, since: time, ...of }];
}
