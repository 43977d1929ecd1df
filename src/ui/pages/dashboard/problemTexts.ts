import type { OverviewProblem, ProblemList } from '../../client/types.ts';
import { clusterAddress, groupAddress, ruleAddress } from '../../components/links.ts';

type Kind = OverviewProblem['kind'];

const titles: Readonly<Record<Kind, (name: string, object: OverviewProblem['object']['kind']) => string>> = {
  ClusterUnhealthy: (name) => `Backend ${name} is down`,
  GroupUnavailable: (name) => `No backend of the routing group ${name} takes queries`,
  ClusterRejected: (name) => `Backend ${name} is rejected`,
  RuleRejected: (name) => `Rule ${name} is rejected`,
  RuleUnresolved: (name) => `Rule ${name} leads nowhere`,
  RulesFileRejected: () => 'The rules file is rejected',
  QueueGrowing: (name) => `The queue of ${name} grows`,
  ErrorRate: (name, object) =>
    object === 'cluster'
      ? `Queries fail at ${name}`
      : name === ''
        ? 'Queries are refused before they have a routing group'
        : `Queries for ${name} are refused`,
  DatabaseUnavailable: () => 'The database is unavailable',
  SourceUnavailable: () => 'The place where resources are declared is unavailable',
  SourceMistakes: () => 'Declared resources cannot be read',
  NoLeader: () => 'No replica leads',
  DeletionsHeld: () => 'Resources that were lost at once are still routed',
  HistoryWaiting: () => 'The history waits on disk',
  ExternalRulesUnavailable: () => 'The external rules service is left alone',
};

export function problemTitle({ kind, object }: OverviewProblem): string {
  return titles[kind](object.name, object.kind);
}

/** Id of the panel with the replica's problems. */
export const GATEWAY_ANCHOR = 'this-gateway';

export function problemAddress({ kind, object: { kind: of, name } }: OverviewProblem): string {
  const value = encodeURIComponent(name);
  if (kind === 'ErrorRate')
    return of === 'cluster'
      ? `/history?cluster=${value}&state=FAILED,LOST,REFUSED`
      : `/history?routingGroup=${value}&state=REFUSED`;
  switch (of) {
    case 'cluster':
      return clusterAddress(name);
    case 'routingGroup':
      return groupAddress(name);
    case 'rule':
      return ruleAddress(name);
    case 'rulesFile':
      return '/routing-rules';
    case 'queue':
      return `/queue?filter=${value}`;
    case 'gateway':
      return `#${GATEWAY_ANCHOR}`;
  }
}

/** Link to all problems of a kind; null if it is missing. */
export function kindAddress(kind: Kind): string | null {
  if (kind === 'RuleRejected' || kind === 'RuleUnresolved') return '/routing-rules';
  if (kind === 'ClusterUnhealthy' || kind === 'ClusterRejected') return '/clusters';
  if (kind === 'GroupUnavailable') return '/limits';
  return kind === 'QueueGrowing' ? '/queue' : null;
}

export const kindNames: Readonly<Record<Kind, string>> = {
  ClusterUnhealthy: 'backends that are down',
  GroupUnavailable: 'routing groups without a backend that takes queries',
  ClusterRejected: 'rejected backends',
  RuleRejected: 'rejected rules',
  RuleUnresolved: 'rules that lead nowhere',
  RulesFileRejected: 'rejected rules files',
  QueueGrowing: 'queues that grow',
  ErrorRate: 'raised error rates',
  DatabaseUnavailable: 'unavailable databases',
  SourceUnavailable: 'unavailable sources',
  SourceMistakes: 'sources with mistakes',
  NoLeader: 'missing leaders',
  DeletionsHeld: 'held deletions',
  HistoryWaiting: 'histories that wait',
  ExternalRulesUnavailable: 'services that are left alone',
};

/** The overall state in one line. @param clusters by state; null if not loaded yet */
export function verdictText(
  { problems, total }: ProblemList,
  clusters: {
    readonly active: number;
    readonly byStatus: Readonly<Record<string, number>>;
    readonly total: number;
  } | null,
): string {
  const [first] = problems;
  if (first === undefined) {
    const healthy =
      clusters === null ? '' : ` ${clusters.byStatus.HEALTHY ?? 0} of ${clusters.total} backends are healthy.`;
    return `No problem is known.${healthy}`;
  }
  const more = total === 1 ? '' : `, and ${total - 1} more problem${total === 2 ? '' : 's'}`;
  return `${problemTitle(first)}${more}.`;
}
