import { Badge, Button, Group, Stack, Text } from '@mantine/core';
import { IconArrowBarToUp, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import type { QueueChanges } from '../../client/queue.ts';
import type { QueuedQuery } from '../../client/types.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { GroupName } from '../../components/namedObject.tsx';
import { QueryId } from '../../components/QueryId.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Ago } from '../../components/time.tsx';
import classes from './queue.module.css';

interface QueueTableProps {
  readonly queries: readonly QueuedQuery[];
  /** Null: read-only. */
  readonly changes: QueueChanges | null;
}

export function QueueTable({ queries, changes }: QueueTableProps) {
  const moveFirst = changes?.moveFirst;
  const drop = changes?.drop;
  const isReadOnly = changes === null;
  const columns = useMemo(
    () =>
      isReadOnly || moveFirst === undefined || drop === undefined ? facts : [...facts, actions({ moveFirst, drop })],
    [isReadOnly, moveFirst, drop],
  );
  const empty = <EmptyState title="No query that waits matches." />;
  return <DataTable label="Queries" columns={columns} rows={queries} rowId={({ id }) => id} empty={empty} />;
}

const facts: readonly Column<QueuedQuery>[] = [
  {
    id: 'id',
    header: 'Query',
    accessorFn: ({ id }) => id,
    cell: ({ row: { original } }) => (
      <Group gap={2} wrap="nowrap">
        <QueryId id={original.id} />
        <CopyText text={original.id} what="query id" />
      </Group>
    ),
  },
  {
    id: 'position',
    header: 'Place',
    accessorFn: ({ position }) => position ?? 0,
    cell: ({ row: { original } }) => <Place query={original} />,
  },
  {
    id: 'group',
    header: 'Group',
    accessorFn: ({ routingGroup }) => routingGroup,
    cell: ({ row: { original } }) => <GroupName name={original.routingGroup} />,
  },
  {
    id: 'user',
    header: 'User',
    accessorFn: ({ user }) => user ?? '',
    cell: ({ row: { original } }) => (
      <Stack gap={0}>
        <Text size="sm">{original.user ?? '–'}</Text>
        {original.source !== null && (
          <Text size="xs" c="dimmed">
            {original.source}
          </Text>
        )}
      </Stack>
    ),
  },
  {
    id: 'since',
    header: 'Since',
    accessorFn: ({ since }) => since,
    cell: ({ row: { original } }) => <Ago at={Date.parse(original.since)} />,
  },
  {
    id: 'reason',
    header: 'Why',
    accessorFn: ({ reason }) => reason,
    cell: ({ row: { original } }) => (
      <Text size="sm" className={classes.why}>
        {original.reason}
      </Text>
    ),
  },
];

function Place({ query: { position, groupWaiting, movedFirst } }: { readonly query: QueuedQuery }) {
  if (position === null) return <Badge variant="light">being sent</Badge>;
  return (
    <Stack gap={0} align="flex-start">
      <Text size="sm">
        {position} of {groupWaiting}
      </Text>
      {movedFirst && (
        <Text size="xs" c="dimmed">
          moved first
        </Text>
      )}
    </Stack>
  );
}

function actions({ moveFirst, drop }: QueueChanges): Column<QueuedQuery> {
  return {
    id: 'actions',
    header: 'Actions',
    enableSorting: false,
    cell: ({ row: { original } }) => (
      <Group gap={4} wrap="nowrap">
        <Button
          size="compact-sm"
          variant="default"
          disabled={original.position === null || original.position === 1}
          leftSection={<IconArrowBarToUp size={14} aria-hidden />}
          aria-label={`Move ${original.id} first`}
          onClick={() => void moveFirst(original)}
        >
          First
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          disabled={original.position === null}
          leftSection={<IconTrash size={14} aria-hidden />}
          aria-label={`Drop ${original.id}`}
          onClick={() => void drop(original)}
        >
          Drop
        </Button>
      </Group>
    ),
  };
}
