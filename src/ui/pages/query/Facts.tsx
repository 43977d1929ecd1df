import { Anchor } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import type { NameMapping } from '../../../model/requestUser.ts';
import type { StoredUserGroups } from '../../../routing/storedDecision.ts';
import type { WholeQuery } from '../../client/types.ts';
import { type Fact, FactList } from '../../components/FactList.tsx';
import { clusterAddress, groupAddress } from '../../components/links.ts';
import { RuleName } from '../../components/namedObject.tsx';
import { reachOf } from './reach.ts';

export function Facts({ query }: { readonly query: WholeQuery }) {
  const { queryId, queuedAs, user, source, routingGroup, cluster, backendUrl, externalUrl, rule } = query;
  const reach = reachOf(query);
  const isTurnedDown = reach === 'refused' || reach === 'denied';
  const engine = externalUrl ?? backendUrl;
  const facts: readonly Fact[] = [
    ['Query id', queryId],
    ...(queuedAs === null || queuedAs === queryId ? [] : [['Waited as', queuedAs] as const]),
    ['User', user ?? 'not known'],
    ...identityOf(query.decision),
    ['Source', source ?? 'none was sent'],
    [
      'Routing group',
      routingGroup === null ? (
        isTurnedDown ? (
          'none was decided'
        ) : (
          'not known'
        )
      ) : (
        <To key="group" to={groupAddress(routingGroup)}>
          {routingGroup}
        </To>
      ),
    ],
    [
      'Backend',
      cluster === '' ? (
        backendUrl || (reach === 'waiting' ? 'none yet' : 'none')
      ) : (
        <span key="cluster">
          <To to={clusterAddress(cluster)}>{cluster}</To>
          {isTurnedDown && ' was chosen'}
        </span>
      ),
    ],
    ...(rule == null ? [] : [['Rule', <RuleName key="rule" name={rule} />] as const]),
    ...(engine === '' || queuedAs === queryId
      ? []
      : [
          [
            'At the engine',
            <Anchor
              key="engine"
              href={`${engine}/ui/query.html?${encodeURIComponent(queryId)}`}
              target="_blank"
              rel="noreferrer"
              size="sm"
              underline="always"
            >
              the engine's page
            </Anchor>,
          ] as const,
        ]),
  ];
  return <FactList facts={facts} />;
}

/** The name before the user mapping, and the groups from each source. */
function identityOf(decision: WholeQuery['decision']): readonly Fact[] {
  const { userMapping, userGroups = [] } = decision ?? {};
  const mapping =
    userMapping === undefined ? [] : [['Name before mapping', <Mapping key="mapping" {...userMapping} />] as const];
  const groups = userGroups.map((said) => [`Groups: ${said.source}`, <Groups key="groups" {...said} />] as const);
  return [...mapping, ...groups];
}

function Mapping({ from, isForwarded }: NameMapping) {
  return isForwarded ? `${from}; its cluster got the mapped name` : from;
}

function Groups({ groups, more, note }: StoredUserGroups) {
  return (
    <>
      {groups.length === 0 && 'none'}
      {groups.map((group, index) => (
        <span key={group}>
          {index > 0 && ', '}
          <To to={`/history?userGroup=${encodeURIComponent(group)}`}>{group}</To>
        </span>
      ))}
      {more !== undefined && ` and ${more} more`}
      {note !== undefined && ` (${note})`}
    </>
  );
}

function To({ to, children }: { readonly to: string; readonly children: ReactNode }) {
  return (
    <Anchor component={Link} to={to} size="sm" underline="always">
      {children}
    </Anchor>
  );
}
