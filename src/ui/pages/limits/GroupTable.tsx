import { Stack, Text } from '@mantine/core';
import type { GroupState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Declaration } from './Declaration.tsx';
import classes from './limits.module.css';
import { counted, ofLimit } from './texts.ts';

/** What a RoutingGroup declares, as far as the page shows it. */
interface GroupSpec {
  readonly maxRunningQueries?: number;
  readonly fallbacks?: readonly string[];
  readonly queue?: { readonly maxQueued?: number; readonly maxWait?: string };
}

/** Routing groups by name. */
export function GroupTable({ groups }: { readonly groups: readonly GroupState[] }) {
  const empty = <EmptyState title="There is no routing group: no cluster is registered." />;
  const rowId = ({ name, resource }: GroupState) => `${name} ${resource?.namespace ?? ''}/${resource?.name ?? ''}`;
  return <DataTable label="Routing groups" columns={columns} rows={groups} rowId={rowId} empty={empty} />;
}

const specOf = ({ spec }: GroupState): GroupSpec => (spec ?? {}) as GroupSpec;

const columns: readonly Column<GroupState>[] = [
  { id: 'name', header: 'Group', accessorFn: ({ name }) => name },
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
    cell: ({ row: { original } }) => specOf(original).fallbacks?.join(', ') ?? '–',
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
        <Declaration kind="RoutingGroup" state={{ ...original, resource: original.resource }} />
      ),
  },
];

function Clusters({ group: { clusters } }: { readonly group: GroupState }) {
  const limits = clusters.filter(({ maxRunningQueries }) => maxRunningQueries !== null);
  return (
    <Stack gap={0} className={classes.names}>
      <Text size="sm">{clusters.length === 0 ? 'none' : clusters.map(({ name }) => name).join(', ')}</Text>
      {limits.length > 0 && (
        <Text size="xs" c="dimmed">
          at a time: {limits.map(({ name, maxRunningQueries }) => `${name} ${maxRunningQueries}`).join(', ')}
        </Text>
      )}
    </Stack>
  );
}
