import { Anchor, Group, Paper, Text } from '@mantine/core';
import { IconAlertOctagon, IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import type { Overview, OverviewProblem, ProblemList } from '../../client/types.ts';
import { LightBadge, To } from '../../components/elements.tsx';
import { Panel } from '../../components/frame.tsx';
import { groupAddress, ruleAddress } from '../../components/links.ts';
import { Names } from '../../components/namedObject.tsx';
import { Ago, Time } from '../../components/time.tsx';
import classes from './dashboard.module.css';
import { kindAddress, problemAddress, problemsName, problemTitle, verdictText } from './problemTexts.ts';

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
  const { severity, reason, since, groups, groupCount, rules, ruleCount, object } = problem;
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
      {groupCount > 0 && object.kind !== 'routingGroup' && (
        <Affected title="Routing groups" names={groups} count={groupCount} address={groupAddress} />
      )}
      {ruleCount > 0 && object.kind !== 'rule' && (
        <Affected title="Rules" names={rules} count={ruleCount} address={ruleAddress} />
      )}
    </li>
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
