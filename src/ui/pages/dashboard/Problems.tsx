import { Anchor, Badge, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import type { OverviewProblem, ProblemList } from '../../client/types.ts';
import { groupAddress, ruleAddress } from '../../components/links.ts';
import { Panel } from '../../components/Panel.tsx';
import { Ago, Time } from '../../components/time.tsx';
import classes from './dashboard.module.css';
import { kindAddress, kindNames, problemAddress, problemTitle } from './problemTexts.ts';

/** Maximum number of problems per kind; the others are one link away. */
const MAX_SHOWN = 5;

/** All problems, each with its reason, start and effect. Nothing if there are no problems. */
export function Problems({ list: { problems, counts } }: { readonly list: ProblemList }) {
  if (problems.length === 0) return null;
  const shown = new Map<OverviewProblem['kind'], number>();
  const rows = problems.filter(({ kind }) => {
    const count = (shown.get(kind) ?? 0) + 1;
    shown.set(kind, count);
    return count <= MAX_SHOWN;
  });
  return (
    <Panel title="Problems">
      <ul className={classes.problems}>
        {rows.map((problem) => (
          <Row key={`${problem.kind} ${problem.object.kind} ${problem.object.name}`} problem={problem} />
        ))}
        {counts
          .filter(({ total }) => total > MAX_SHOWN)
          .map(({ kind, total }) => (
            <li key={kind}>
              <More kind={kind}>
                {(total - MAX_SHOWN).toLocaleString('en')} more {kindNames[kind]}
              </More>
            </li>
          ))}
      </ul>
    </Panel>
  );
}

function Row({ problem }: { readonly problem: OverviewProblem }) {
  const { severity, reason, since, groups, groupCount, rules, ruleCount, object } = problem;
  return (
    <li>
      <div className={classes.problem}>
        <Badge variant="light" color={severity === 'critical' ? 'red' : 'yellow'}>
          {severity}
        </Badge>
        <To address={problemAddress(problem)}>{problemTitle(problem)}</To>
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
        <Names title="Routing groups" names={groups} count={groupCount} address={groupAddress} />
      )}
      {ruleCount > 0 && object.kind !== 'rule' && (
        <Names title="Rules" names={rules} count={ruleCount} address={ruleAddress} />
      )}
    </li>
  );
}

interface NamesProps {
  readonly title: string;
  readonly names: readonly string[];
  readonly count: number;
  readonly address: (name: string) => string;
}

const MAX_NAMES = 8;

function Names({ title, names, count, address }: NamesProps) {
  const shown = names.slice(0, MAX_NAMES);
  return (
    <Text size="sm" className={classes.name}>
      {title}:{' '}
      {shown.map((name, index) => (
        <span key={name}>
          {index > 0 && ', '}
          <Anchor component={Link} to={address(name)} size="sm" underline="always">
            {name}
          </Anchor>
        </span>
      ))}
      {count > shown.length && ` and ${(count - shown.length).toLocaleString('en')} more`}
    </Text>
  );
}

function More({ kind, children }: { readonly kind: OverviewProblem['kind']; readonly children: ReactNode }) {
  const address = kindAddress(kind);
  return address === null ? <Text size="sm">{children}</Text> : <To address={address}>{children}</To>;
}

function To({ address, children }: { readonly address: string; readonly children: ReactNode }) {
  // The browser handles links within this page.
  if (address.startsWith('#')) return <Anchor href={address}>{children}</Anchor>;
  return (
    <Anchor component={Link} to={address} className={classes.name}>
      {children}
    </Anchor>
  );
}
