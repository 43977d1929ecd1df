import { Button, Group, Stack, Text, Title } from '@mantine/core';
import type { StringMatch } from '../../../kinds/fields/spec.ts';
import type { QueryLimitSpec } from '../../../kinds/queryLimit/spec.ts';
import { useGroups, useLimits } from '../../client/resources.ts';
import type { GroupState, LimitState } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint } from '../../components/elements.tsx';
import { Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { ClusterNames, GroupName, GroupNames } from '../../components/names.tsx';
import { counted, DeclaringResource, GroupDeclaration, isInvalid, ofLimit, specOf } from '../groups/groupParts.tsx';

/** Limits: routing groups with their queues, and limits of users and sources, each with its usage. */
export default function LimitsPage() {
  const groups = useGroups();
  const limits = useLimits();
  const [group, setGroup] = useAddressState('group');
  const noGroup =
    group === ''
      ? 'There is no routing group: no cluster is registered.'
      : `There is no routing group ${group}: no cluster belongs to it, and no RoutingGroup declares it.`;
  return (
    <PageFrame title="Limits">
      <Title order={2}>Routing groups</Title>
      <RequestState query={groups} label="Loading routing groups">
        {(rows) => (
          <>
            {group !== '' && (
              <Group gap="xs">
                <Text size="sm">Only the group {group} is shown.</Text>
                <Button size="compact-sm" variant="default" onClick={() => setGroup('', 'push')}>
                  Show all groups
                </Button>
              </Group>
            )}
            <Framed>
              <DataTable
                label="Routing groups"
                columns={groupColumns}
                rows={group === '' ? rows : rows.filter(({ name }) => name === group)}
                rowId={({ name, resource }) => `${name} ${resource?.namespace ?? ''}/${resource?.name ?? ''}`}
                empty={noGroup}
                sortIn="groupSort"
              />
            </Framed>
          </>
        )}
      </RequestState>
      <Title order={2}>Users and sources</Title>
      <RequestState query={limits} label="Loading limits">
        {(rows) => (
          <Framed>
            <DataTable
              label="Limits"
              columns={limitColumns}
              rows={rows}
              rowId={limitName}
              empty="There is no limit of users or sources. Limits are written as QueryLimit resources."
            />
          </Framed>
        )}
      </RequestState>
    </PageFrame>
  );
}

const groupColumns: readonly Column<GroupState>[] = [
  { id: 'name', header: 'Group', value: ({ name }) => name, cell: ({ name }) => <GroupName name={name} /> },
  {
    ...{ id: 'clusters', header: 'Clusters', value: ({ clusters }) => clusters.length },
    cell: (group) => <Clusters group={group} />,
  },
  {
    ...{ id: 'running', header: 'Running', value: ({ running }) => running ?? -1 },
    cell: (group) => ofLimit(group.running, specOf(group).maxRunningQueries),
  },
  {
    ...{ id: 'waiting', header: 'Waiting', value: ({ waiting }) => waiting ?? -1 },
    cell: (group) => ofLimit(group.waiting, specOf(group).queue?.maxQueuedQueries),
  },
  countColumn('Refused', ({ refused }) => refused),
  {
    ...{ id: 'fallbacks', header: 'Fallbacks' },
    cell: (group) => {
      const { fallbacks = [] } = specOf(group);
      return fallbacks.length === 0 ? '–' : <GroupNames names={fallbacks} />;
    },
  },
  {
    ...{ id: 'state', header: 'Declared by', value: ({ inForce }) => (inForce ? 1 : 0) },
    cell: (group) => <GroupDeclaration group={group} none="nothing: as the configuration says" />,
  },
];

function countColumn<T>(header: string, of: (row: T) => number | null): Column<T> {
  return { id: header.toLowerCase(), header, value: (row) => of(row) ?? -1, cell: (row) => counted(of(row)) };
}

function Clusters({ group: { clusters } }: { readonly group: GroupState }) {
  const limits = clusters.filter(({ maxRunningQueries }) => maxRunningQueries !== null);
  return (
    <Stack gap={0} className={classes.names}>
      <Text size="sm">
        {clusters.length === 0 ? 'none' : <ClusterNames names={clusters.map(({ name }) => name)} />}
      </Text>
      {limits.length > 0 && (
        <Faint>
          at a time: {limits.map(({ name, maxRunningQueries }) => `${name} ${maxRunningQueries}`).join(', ')}
        </Faint>
      )}
    </Stack>
  );
}

const limitSpecOf = ({ spec }: LimitState): QueryLimitSpec => spec as QueryLimitSpec;
const limitName = ({ namespace, name }: LimitState): string => `${namespace}/${name}`;

const limitColumns: readonly Column<LimitState>[] = [
  { id: 'name', header: 'Limit', value: limitName },
  { id: 'what', header: 'Whom, and how much', cell: (limit) => <What limit={limit} /> },
  countColumn('Running', ({ running }) => running),
  countColumn('Waiting', ({ waiting }) => waiting),
  countColumn('Refused', ({ refused }) => refused),
  {
    ...{ id: 'state', header: 'Declared by', value: ({ inForce }) => (inForce ? 1 : 0) },
    cell: (limit) => (
      <DeclaringResource
        kind="QueryLimit"
        listedAs={limit.name}
        state={limit}
        observes={limitSpecOf(limit).mode === 'Observe'}
      />
    ),
  },
];

const labels: Readonly<Record<string, string>> = {
  ...{ userGroups: 'groups of users', routingGroups: 'routing groups', estimate: 'expected size' },
};

/** A match in short: a name, its beginning with `…`, or an expression between slashes. */
function matchText(match: StringMatch | string): string {
  if (typeof match === 'string') return match;
  const { type, value } = match;
  if (type === 'RegularExpression') return `/${value}/`;
  return type === 'Prefix' ? `${value}…` : value;
}

function What({ limit }: { readonly limit: LimitState }) {
  if (isInvalid(limit))
    return (
      <Text size="sm" className={classes.what ?? ''}>
        {JSON.stringify(limit.spec)}
      </Text>
    );
  const { match, per, maxRunningQueries, maxQueuedQueries, rate, message } = limitSpecOf(limit);
  const { everyone: _everyone, ...lists } = match;
  const whom = Object.entries(lists).map(
    ([field, values]) => `${labels[field] ?? field} ${values.map(matchText).join(', ')}`,
  );
  const limits = [
    ...(maxRunningQueries === undefined ? [] : [`${maxRunningQueries} at a time`]),
    ...(maxQueuedQueries === undefined ? [] : [`${maxQueuedQueries} waiting`]),
    ...(rate === undefined ? [] : [`${rate.queries} in ${rate.period ?? '1m'}, ${rate.burst ?? rate.queries} at once`]),
  ];
  return (
    <Stack gap={0} className={classes.what}>
      <Text size="sm">{whom.length === 0 ? 'everybody' : whom.join('; ')}</Text>
      <Text size="sm">
        {per === 'All' ? 'together' : `each ${per.toLowerCase()}`}: {limits.join('; ')}
      </Text>
      {message !== undefined && <Faint>{message}</Faint>}
    </Stack>
  );
}
