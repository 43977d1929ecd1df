import { Anchor } from '@mantine/core';
import type { NameMapping } from '../../../model/requestUser.ts';
import type { StoredUserGroups } from '../../../routing/storedDecision.ts';
import type { WholeQuery } from '../../client/types.ts';
import { To } from '../../components/elements.tsx';
import { type Fact, FactList } from '../../components/FactList.tsx';
import { clusterAddress, groupAddress } from '../../components/links.ts';
import { Names, RuleName } from '../../components/namedObject.tsx';
import { reachOf } from './reach.ts';

export function Facts({ query }: { readonly query: WholeQuery }) {
  const { queryId, queuedAs, user, source, routingGroup, cluster, backendUrl, externalUrl, rule } = query;
  const reach = reachOf(query);
  const isTurnedDown = reach === 'refused' || reach === 'denied';
  const engine = externalUrl ?? backendUrl;
  const group = routingGroup !== null && <To address={groupAddress(routingGroup)}>{routingGroup}</To>;
  const chosen = (
    <span key="cluster">
      <To address={clusterAddress(cluster)}>{cluster}</To>
      {isTurnedDown && ' was chosen'}
    </span>
  );
  const enginePage = (
    <Anchor
      key="engine"
      href={`${engine}/ui/query.html?${encodeURIComponent(queryId)}`}
      target="_blank"
      rel="noreferrer"
      size="sm"
      underline="always"
    >
      the engine's page
    </Anchor>
  );
  const noCluster = backendUrl || (reach === 'waiting' ? 'none yet' : 'none');
  const facts: readonly Fact[] = [
    ['Query id', queryId],
    ['Waited as', queuedAs === null || queuedAs === queryId ? undefined : queuedAs],
    ['User', user ?? 'not known'],
    ...identityOf(query.decision),
    ['Source', source ?? 'none was sent'],
    ['Routing group', group || (isTurnedDown ? 'none was decided' : 'not known')],
    ['Backend', cluster === '' ? noCluster : chosen],
    ['Rule', rule == null ? undefined : <RuleName key="rule" name={rule} />],
    ['At the engine', engine === '' || queuedAs === queryId ? undefined : enginePage],
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
  const address = (group: string) => `/history?userGroup=${encodeURIComponent(group)}`;
  return (
    <>
      {groups.length === 0 && 'none'}
      <Names names={groups} of={(group) => <To address={address(group)}>{group}</To>} />
      {more !== undefined && ` and ${more} more`}
      {note !== undefined && ` (${note})`}
    </>
  );
}
