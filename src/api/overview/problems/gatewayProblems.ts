import type { OverviewProblem } from '../../answers/overview.ts';
import type { ComponentState } from '../../processReadiness.ts';
import { affected, timeText } from './problemList.ts';

export interface ComponentFact extends Omit<ComponentState, 'ok'> {
  /** Since when, milliseconds since 1970; null: it was when the process first looked. */
  readonly since: number | null;
}

export interface NoLeaderFact {
  /** Milliseconds since 1970; null: not known. */
  readonly since: number | null;
}

type Kind = OverviewProblem['kind'];

/** Problems that components are; of all others the way of recognising callers is no incident. */
const kinds: Readonly<Record<string, readonly [Kind, OverviewProblem['severity']]>> = {
  database: ['DatabaseUnavailable', 'critical'],
  'resource source': ['SourceUnavailable', 'critical'],
  'held deletions': ['DeletionsHeld', 'warning'],
  'history buffer': ['HistoryWaiting', 'warning'],
  'external rules service': ['ExternalRulesUnavailable', 'warning'],
};

const sourceMistakes = ['SourceMistakes', 'warning'] as const;

/** Problems of the responding replica, and a missing leader. Pure. */
export function gatewayProblems(
  components: readonly ComponentFact[],
  noLeader: NoLeaderFact | null,
): OverviewProblem[] {
  const problems = components.flatMap(({ name, message, hasMistakes = false, since }) => {
    const [kind, severity] = name === 'resource source' && hasMistakes ? sourceMistakes : (kinds[name] ?? []);
    if (kind === undefined || severity === undefined) return [];
    return [problem(kind, severity, name, message, since)];
  });
  if (noLeader === null) return problems;
  const reason = 'no replica leads: statuses of resources are not written, and what changed elsewhere is not projected';
  return [...problems, problem('NoLeader', 'warning', 'leader', reason, noLeader.since)];
}

function problem(
  kind: Kind,
  severity: OverviewProblem['severity'],
  name: string,
  reason: string,
  since: number | null,
): OverviewProblem {
  return { kind, severity, object: { kind: 'gateway', name }, reason, since: timeText(since), ...affected([], []) };
}
