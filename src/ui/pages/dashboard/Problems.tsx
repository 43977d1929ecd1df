import { Anchor, Group, Paper, Text } from '@mantine/core';
import { IconAlertOctagon, IconAlertTriangle, IconCircleCheck, IconTrash } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { useConfirmLosses } from '../../client/changes.ts';
import { useHeldDeletions } from '../../client/resources.ts';
import type { Overview, OverviewProblem, ProblemList } from '../../client/types.ts';
import { LightBadge, SmallAction, To } from '../../components/elements.tsx';
import { Panel, RequestState } from '../../components/frame.tsx';
import { clusterAddress, groupAddress, Names, ruleAddress } from '../../components/names.tsx';
import { Ago, Time } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import classes from './dashboard.module.css';

const looks = {
  ok: { Icon: IconCircleCheck, className: classes.good, word: 'fine' },
  warning: { Icon: IconAlertTriangle, className: classes.poor, word: 'warning' },
  critical: { Icon: IconAlertOctagon, className: classes.critical, word: 'critical' },
} as const;

interface VerdictProps {
  readonly list: ProblemList;
  readonly clusters: Overview['clusters'] | null;
}

export function Verdict({ list, clusters }: VerdictProps) {
  const { Icon, className, word } = looks[list.verdict];
  return (
    <Paper withBorder p="sm" component="section" aria-label="Verdict" className={classes[`verdict-${list.verdict}`]}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs" wrap="nowrap" role="status">
          <Icon size={24} className={className} role="img" aria-label={word} />
          <Text fw={600} className={classes.name}>
            {verdictText(list, clusters)}
          </Text>
        </Group>
        <Text size="sm" c="dimmed">
          as of <Time at={Date.parse(list.asOf)} />
        </Text>
      </Group>
    </Paper>
  );
}

/** Maximum number of problems per kind; the others are one link away. */
const MAX_SHOWN = 5;

/** All problems, each with its reason, start and effect. Nothing if there are no problems. */
export function Problems({ list: { problems, counts } }: { readonly list: ProblemList }) {
  if (problems.length === 0) return null;
  const rows = [...Map.groupBy(problems, ({ kind }) => kind).values()].flatMap((ofKind) => ofKind.slice(0, MAX_SHOWN));
  const shown = new Set(rows);
  return (
    <Panel title="Problems">
      <ul className={classes.problems}>
        {problems
          .filter((problem) => shown.has(problem))
          .map((problem) => (
            <Row key={`${problem.kind} ${problem.object.kind} ${problem.object.name}`} problem={problem} />
          ))}
        {counts
          .filter(({ total }) => total > MAX_SHOWN)
          .map(({ kind, total }) => {
            const text = `${(total - MAX_SHOWN).toLocaleString('en')} more ${problemsName(kind)}`;
            const address = kindAddress(kind);
            return (
              <li key={kind}>
                {address === null ? <Text size="sm">{text}</Text> : <Subject address={address}>{text}</Subject>}
              </li>
            );
          })}
      </ul>
    </Panel>
  );
}

function Row({ problem }: { readonly problem: OverviewProblem }) {
  const { kind, severity, reason, since, groups, groupCount, rules, ruleCount, object } = problem;
  const isAdmin = useRole('ADMIN');
  return (
    <li>
      <div className={classes.problem}>
        <LightBadge color={severity === 'critical' ? 'red' : 'yellow'} text={severity} />
        <Subject address={problemAddress(problem)}>{problemTitle(problem)}</Subject>
        <Text component="span" size="sm" c="dimmed">
          {since === null ? (
            'since when is not known'
          ) : (
            <>
              since <Time at={Date.parse(since)} /> (<Ago at={Date.parse(since)} />)
            </>
          )}
        </Text>
      </div>
      <Text size="sm" className={classes.name}>
        {reason}
      </Text>
      {kind === 'DeletionsHeld' && isAdmin && <HeldDeletions />}
      {groupCount > 0 && object.kind !== 'routingGroup' && (
        <Affected title="Routing groups" names={groups} count={groupCount} address={groupAddress} />
      )}
      {ruleCount > 0 && object.kind !== 'rule' && (
        <Affected title="Rules" names={rules} count={ruleCount} address={ruleAddress} />
      )}
    </li>
  );
}

/** Resources that are routed until their loss is confirmed, and the button that confirms it. */
function HeldDeletions() {
  const query = useHeldDeletions();
  const remove = useConfirmLosses();
  return (
    <RequestState query={query} label="Loading what the source lost">
      {({ losses }) => (
        <Group gap="xs">
          <Text size="sm" className={classes.name}>
            {losses.map(({ kind, held: count, names }) => `${kind} (${count}): ${names.join(', ')}`).join('; ')}
          </Text>
          <SmallAction
            label="Remove them"
            icon={IconTrash}
            disabled={losses.length === 0}
            onClick={() => void remove(losses.reduce((sum, loss) => sum + loss.held, 0))}
          />
        </Group>
      )}
    </RequestState>
  );
}

interface AffectedProps {
  readonly title: string;
  readonly names: readonly string[];
  readonly count: number;
  readonly address: (name: string) => string;
}

const MAX_NAMES = 8;

function Affected({ title, names, count, address }: AffectedProps) {
  const shown = names.slice(0, MAX_NAMES);
  return (
    <Text size="sm" className={classes.name}>
      {title}: <Names names={shown} of={(name) => <To address={address(name)}>{name}</To>} />
      {count > shown.length && ` and ${(count - shown.length).toLocaleString('en')} more`}
    </Text>
  );
}

function Subject({ address, children }: { readonly address: string; readonly children: ReactNode }) {
  // The browser handles links within this page.
  if (address.startsWith('#')) return <Anchor href={address}>{children}</Anchor>;
  return (
    <Anchor component={Link} to={address} className={classes.name}>
      {children}
    </Anchor>
  );
}

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
  StatementQuarantined: [({ name }) => `Statement ${name} is quarantined`, 'quarantined statements'],
  QueriesRetried: [({ name }) => `Queries of ${name} lose their backends`, 'routing groups with retries'],
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

function problemTitle({ kind, object }: OverviewProblem): string {
  const [title] = texts[kind];
  return typeof title === 'string' ? title : title(object);
}

const problemsName = (kind: Kind): string => texts[kind][1];

/** Id of the panel with the replica's problems. */
export const GATEWAY_ANCHOR = 'this-gateway';

function problemAddress({ kind, object: { kind: of, name } }: OverviewProblem): string {
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
    case 'statement':
      return '/workload';
    case 'gateway':
      return `#${GATEWAY_ANCHOR}`;
  }
}

/** Link to all problems of a kind; null if it is missing. */
function kindAddress(kind: Kind): string | null {
  if (kind === 'RuleRejected' || kind === 'RuleUnresolved') return '/routing-rules';
  if (kind === 'ClusterUnhealthy' || kind === 'ClusterRejected') return '/clusters';
  if (kind === 'GroupUnavailable') return '/limits';
  return kind === 'QueueGrowing' ? '/queue' : null;
}

/** The overall state in one line. @param clusters by state; null if not loaded yet */
function verdictText(
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
