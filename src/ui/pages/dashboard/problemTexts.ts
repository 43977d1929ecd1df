import type { OverviewProblem, ProblemList } from '../../client/types.ts';
import { clusterAddress, groupAddress, ruleAddress } from '../../components/links.ts';

type Kind = OverviewProblem['kind'];

type About = OverviewProblem['object'];

const texts: Readonly<Record<Kind, readonly [title: string | ((object: About) => string), all: string]>> = {
  ClusterUnhealthy: [({ name }) => `Backend ${name} is down`, 'backends that are down'],
  GroupUnavailable: [
    ({ name }) => `No backend of the routing group ${name} takes queries`,
    'routing groups without a backend that takes queries',
  ],
  ClusterRejected: [({ name }) => `Backend ${name} is rejected`, 'rejected backends'],
  RuleRejected: [({ name }) => `Rule ${name} is rejected`, 'rejected rules'],
  RuleUnresolved: [({ name }) => `Rule ${name} leads nowhere`, 'rules that lead nowhere'],
  RulesFileRejected: ['The rules file is rejected', 'rejected rules files'],
  QueueGrowing: [({ name }) => `The queue of ${name} grows`, 'queues that grow'],
  ErrorRate: [errorRateTitle, 'raised error rates'],
  DatabaseUnavailable: ['The database is unavailable', 'unavailable databases'],
  SourceUnavailable: ['The place where resources are declared is unavailable', 'unavailable sources'],
  SourceMistakes: ['Declared resources cannot be read', 'sources with mistakes'],
  NoLeader: ['No replica leads', 'missing leaders'],
  DeletionsHeld: ['Resources that were lost at once are still routed', 'held deletions'],
  HistoryWaiting: ['The history waits on disk', 'histories that wait'],
  ExternalRulesUnavailable: ['The external rules service is left alone', 'services that are left alone'],
};

function errorRateTitle({ kind, name }: About): string {
  if (kind === 'cluster') return `Queries fail at ${name}`;
  return name === '' ? 'Queries are refused before they have a routing group' : `Queries for ${name} are refused`;
}

export function problemTitle({ kind, object }: OverviewProblem): string {
  const [title] = texts[kind];
  return typeof title === 'string' ? title : title(object);
}

export const problemsName = (kind: Kind): string => texts[kind][1];

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
