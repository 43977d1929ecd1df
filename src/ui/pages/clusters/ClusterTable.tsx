import { ActionIcon, Anchor, Badge, Group, Stack, Text, Tooltip, UnstyledButton } from '@mantine/core';
import { IconExternalLink, IconInfoCircle, IconPencil, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import { Link } from 'react-router';
import type { ClusterState } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { clusterAddress } from '../../components/links.ts';
import { GroupName } from '../../components/namedObject.tsx';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { activeColumn } from './ActiveSwitch.tsx';
import { useDelete } from './changes.ts';
import classes from './clusters.module.css';
import { discoveredText, RefusedAction } from './Discovered.tsx';
import { DrainProgress } from './DrainProgress.tsx';
import { sourceOf } from './source.ts';

interface ClusterTableProps {
  readonly clusters: readonly ClusterState[];
  readonly filter: string;
  readonly mayWrite: boolean;
  readonly onEdit: (cluster: ClusterState) => void;
  readonly onDetails: (name: string) => void;
}

export function ClusterTable({ clusters, filter, mayWrite, onEdit, onDetails }: ClusterTableProps) {
  const columns = useMemo(() => columnsOf({ mayWrite, onEdit, onDetails }), [mayWrite, onEdit, onDetails]);
  const empty =
    clusters.length === 0 ? (
      <EmptyState title="There is no backend yet. Add one here, by kubectl, in a manifest, or by REST." />
    ) : (
      <EmptyState title="No backend matches the filter." />
    );
  return (
    <DataTable
      label="Backends"
      columns={columns}
      rows={clusters}
      rowId={rowId}
      filter={filter}
      empty={empty}
      sortedBy={{ id: 'name', desc: false }}
    />
  );
}

const rowId = ({ name, resource }: ClusterState): string =>
  `${name} ${resource?.namespace ?? ''} ${resource?.name ?? ''}`;

type ColumnOptions = Pick<ClusterTableProps, 'mayWrite' | 'onEdit' | 'onDetails'>;

function columnsOf({ mayWrite, onEdit, onDetails }: ColumnOptions): readonly Column<ClusterState>[] {
  return [
    {
      id: 'name',
      header: 'Name',
      accessorFn: ({ name }) => name,
      cell: ({ row: { original } }) => <Name cluster={original} />,
    },
    {
      id: 'group',
      header: 'Routing group',
      accessorFn: ({ routingGroup }) => routingGroup ?? '',
      cell: ({ row: { original } }) =>
        original.routingGroup === null ? '–' : <GroupName name={original.routingGroup} />,
    },
    {
      id: 'url',
      header: 'URL',
      accessorFn: ({ proxyTo }) => proxyTo ?? '',
      cell: ({ row: { original } }) => (
        <Text size="sm" className={classes.url}>
          {original.proxyTo ?? '–'}
        </Text>
      ),
    },
    activeColumn(mayWrite),
    {
      id: 'status',
      header: 'Status',
      accessorFn: ({ status }) => status,
      cell: ({ row: { original } }) => <Status cluster={original} onDetails={onDetails} />,
    },
    count('Queued', ({ queued }) => queued),
    count('Running', ({ running }) => running),
    {
      id: 'actions',
      header: 'Actions',
      enableSorting: false,
      cell: ({ row: { original } }) => (
        <Actions cluster={original} mayWrite={mayWrite} onEdit={onEdit} onDetails={onDetails} />
      ),
    },
  ];
}

function count(header: string, of: (cluster: ClusterState) => number | null): Column<ClusterState> {
  return {
    id: header.toLowerCase(),
    header,
    accessorFn: (cluster) => of(cluster) ?? -1,
    cell: ({ row: { original } }) =>
      of(original) ?? <span title="The health check of this backend counts none.">–</span>,
  };
}

function Name({ cluster }: { readonly cluster: ClusterState }) {
  const { name, externalUrl, proxyTo } = cluster;
  const link = externalUrl ?? proxyTo;
  return (
    <div className={classes.name}>
      <Group gap={4} wrap="nowrap">
        <Anchor component={Link} to={clusterAddress(name)} size="sm" fw={500} className={classes.source}>
          {name}
        </Anchor>
        {link !== null && (
          <Tooltip label={`The engine's page: ${link}`}>
            <ActionIcon
              component="a"
              href={link}
              target="_blank"
              rel="noreferrer"
              size="sm"
              aria-label={`Engine's page of ${name}`}
            >
              <IconExternalLink size={14} aria-hidden />
            </ActionIcon>
          </Tooltip>
        )}
      </Group>
      <Text size="xs" c="dimmed" className={classes.source}>
        {sourceOf(cluster)}
      </Text>
    </div>
  );
}

function Status({
  cluster,
  onDetails,
}: {
  readonly cluster: ClusterState;
  readonly onDetails: (name: string) => void;
}) {
  const { name, status, reason, active, resource, routed, flappingSince } = cluster;
  const troubled =
    resource?.conditions.some(({ type, status: holds }) => type === 'Ready' && holds === 'False') ?? false;
  return (
    <Stack gap={2} align="flex-start">
      <Group gap={4}>
        {routed ? (
          <StatusBadge status={status} />
        ) : (
          <Badge variant="light" color="red">
            Not routed
          </Badge>
        )}
        {troubled && routed && (
          <Badge variant="light" color="orange">
            Not ready
          </Badge>
        )}
      </Group>
      {flappingSince !== null && (
        <Text size="xs">
          Flapping since <Time at={Date.parse(flappingSince)} />
        </Text>
      )}
      {routed && !active && <DrainProgress cluster={cluster} beside="all" />}
      {status !== 'HEALTHY' && (
        <UnstyledButton className={classes.reason} onClick={() => onDetails(name)}>
          {reason}
        </UnstyledButton>
      )}
    </Stack>
  );
}

function Actions({ cluster, mayWrite, onEdit, onDetails }: ColumnOptions & { readonly cluster: ClusterState }) {
  const remove = useDelete();
  const { name } = cluster;
  const discovered = discoveredText(cluster);
  return (
    <Group gap={2} wrap="nowrap">
      <Tooltip label="Details">
        <ActionIcon aria-label={`Details of ${name}`} onClick={() => onDetails(name)}>
          <IconInfoCircle size={18} aria-hidden />
        </ActionIcon>
      </Tooltip>
      {mayWrite && discovered !== null && (
        <>
          <RefusedAction label={`Edit ${name}`} why={discovered}>
            <IconPencil size={18} aria-hidden />
          </RefusedAction>
          <RefusedAction label={`Delete ${name}`} why={discovered}>
            <IconTrash size={18} aria-hidden />
          </RefusedAction>
        </>
      )}
      {mayWrite && discovered === null && (
        <>
          <Tooltip label="Edit">
            <ActionIcon aria-label={`Edit ${name}`} onClick={() => onEdit(cluster)} disabled={!cluster.routed}>
              <IconPencil size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
          <Tooltip label="Delete">
            <ActionIcon aria-label={`Delete ${name}`} onClick={() => void remove(cluster)}>
              <IconTrash size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
        </>
      )}
    </Group>
  );
}
