import { Stack, Text } from '@mantine/core';
import type { GroupState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Names } from '../../components/Names.tsx';
import { ClusterName, GroupName } from '../../components/namedObject.tsx';
import { EmptyState } from '../../components/states.tsx';
import { specOf } from '../groups/groupFacts.ts';
import { DeclaringResource } from './Declaration.tsx';
import classes from './limits.module.css';
import { counted, ofLimit } from './texts.ts';

interface GroupTableProps {
  readonly groups: readonly GroupState[];
  /** Name of the only visible group; empty: all groups. */
  readonly only: string;
}

export function GroupTable({ groups, only }: GroupTableProps) {
  const title =
    only === ''
      ? 'There is no routing group: no cluster is registered.'
      : `There is no routing group ${only}: no cluster belongs to it, and no RoutingGroup declares it.`;
  const empty = <EmptyState title={title} />;
  const rowId = ({ name, resource }: GroupState) => `${name} ${resource?.namespace ?? ''}/${resource?.name ?? ''}`;
  return (
    <DataTable label="Routing groups" columns={columns} rows={groups} rowId={rowId} empty={empty} sortIn="groupSort" />
  );
}

const columns: readonly Column<GroupState>[] = [
  {
    id: 'name',
    header: 'Group',
    accessorFn: ({ name }) => name,
    cell: ({ row: { original } }) => <GroupName name={original.name} />,
  },
  {
    id: 'clusters',
    header: 'Clusters',
    accessorFn: ({ clusters }) => clusters.length,
    cell: ({ row: { original } }) => <Clusters group={original} />,
  },
  {
    id: 'running',
    header: 'Running',
    accessorFn: ({ running }) => running ?? -1,
    cell: ({ row: { original } }) => ofLimit(original.running, specOf(original).maxRunningQueries),
  },
  {
    id: 'waiting',
    header: 'Waiting',
    accessorFn: ({ waiting }) => waiting ?? -1,
    cell: ({ row: { original } }) => ofLimit(original.waiting, specOf(original).queue?.maxQueued),
  },
  {
    id: 'refused',
    header: 'Refused',
    accessorFn: ({ refused }) => refused ?? -1,
    cell: ({ row: { original } }) => counted(original.refused),
  },
  {
    id: 'fallbacks',
    header: 'Fallbacks',
    enableSorting: false,
    cell: ({ row: { original } }) => {
      const { fallbacks = [] } = specOf(original);
      return fallbacks.length === 0 ? '–' : <Names names={fallbacks} of={(name) => <GroupName name={name} />} />;
    },
  },
  {
    id: 'state',
    header: 'Declared by',
    accessorFn: ({ inForce }) => (inForce ? 1 : 0),
    cell: ({ row: { original } }) =>
      original.resource === null ? (
        <Text size="sm" c="dimmed">
          nothing: as the configuration says
        </Text>
      ) : (
        <GroupDeclaration group={original} resource={original.resource} />
      ),
  },
];

interface GroupDeclarationProps {
  readonly group: GroupState;
  readonly resource: NonNullable<GroupState['resource']>;
}

export function GroupDeclaration({ group, resource }: GroupDeclarationProps) {
  return <DeclaringResource kind="RoutingGroup" listedAs={group.name} state={{ ...group, resource }} />;
}

function Clusters({ group: { clusters } }: { readonly group: GroupState }) {
  const limits = clusters.filter(({ maxRunningQueries }) => maxRunningQueries !== null);
  return (
    <Stack gap={0} className={classes.names}>
      <Text size="sm">
        {clusters.length === 0 ? (
          'none'
        ) : (
          <Names names={clusters.map(({ name }) => name)} of={(name) => <ClusterName name={name} />} />
        )}
      </Text>
      {limits.length > 0 && (
        <Text size="xs" c="dimmed">
          at a time: {limits.map(({ name, maxRunningQueries }) => `${name} ${maxRunningQueries}`).join(', ')}
        </Text>
      )}
    </Stack>
  );
}
