import { Badge, Group, Stack, Text } from '@mantine/core';
import { IconArrowBarToUp, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import { type QueueChanges, useQueueChanges } from '../../client/changes.ts';
import { useQueue } from '../../client/resources.ts';
import type { QueuedQuery } from '../../client/types.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, SmallAction, To } from '../../components/elements.tsx';
import { GroupName } from '../../components/namedObject.tsx';
import { QueryId } from '../../components/QueryId.tsx';
import { EmptyState, RequestState } from '../../components/states.tsx';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import classes from './queue.module.css';

/** Queued queries; administrators can move them to the front or drop them. */
export function QueueTable({ queries }: { readonly queries: readonly QueuedQuery[] }) {
  const { moveFirst, drop } = useQueueChanges();
  const mayChange = useRole('ADMIN');
  const columns = useMemo(
    () => (mayChange ? [...facts, actions({ moveFirst, drop })] : facts),
    [mayChange, moveFirst, drop],
  );
  const empty = <EmptyState title="No query that waits matches." />;
  return <DataTable label="Queries" columns={columns} rows={queries} rowId={({ id }) => id} empty={empty} />;
}

const facts: readonly Column<QueuedQuery>[] = [
  {
    ...{ id: 'id', header: 'Query', value: ({ id }) => id },
    cell: ({ id }) => (
      <Group gap={2} wrap="nowrap">
        <QueryId id={id} />
        <CopyText text={id} what="query id" />
      </Group>
    ),
  },
  {
    ...{ id: 'position', header: 'Place', value: ({ position }) => position ?? 0 },
    cell: (query) => <Place query={query} />,
  },
  {
    ...{ id: 'group', header: 'Group', value: ({ routingGroup }) => routingGroup },
    cell: ({ routingGroup }) => <GroupName name={routingGroup} />,
  },
  {
    ...{ id: 'user', header: 'User', value: ({ user }) => user ?? '' },
    cell: ({ user, source }) => (
      <Stack gap={0}>
        <Text size="sm">{user ?? '–'}</Text>
        {source !== null && <Faint>{source}</Faint>}
      </Stack>
    ),
  },
  { id: 'since', header: 'Since', value: ({ since }) => since, cell: ({ since }) => <Ago at={Date.parse(since)} /> },
  {
    ...{ id: 'reason', header: 'Why', value: ({ reason }) => reason },
    cell: ({ reason }) => (
      <Text size="sm" className={classes.why}>
        {reason}
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
      {movedFirst && <Faint>moved first</Faint>}
    </Stack>
  );
}

function actions({ moveFirst, drop }: QueueChanges): Column<QueuedQuery> {
  return {
    ...{ id: 'actions', header: 'Actions' },
    cell: (query) => (
      <Group gap={4} wrap="nowrap">
        <SmallAction
          label="First"
          name={`Move ${query.id} first`}
          icon={IconArrowBarToUp}
          size="compact-sm"
          disabled={query.position === null || query.position === 1}
          onClick={() => void moveFirst(query)}
        />
        <SmallAction
          label="Drop"
          name={`Drop ${query.id}`}
          icon={IconTrash}
          size="compact-sm"
          disabled={query.position === null}
          onClick={() => void drop(query)}
        />
      </Group>
    ),
  };
}

export const noneWaits = (isAdmin: boolean): string => (isAdmin ? 'No query waits.' : 'None of your queries waits.');

const MAX_ROWS = 20;

/** The oldest queued queries of a group. */
export function WaitingQueries({ group }: { readonly group: string }) {
  const queue = useQueue();
  const isAdmin = useRole('ADMIN');
  return (
    <RequestState query={queue} label="Loading the queue">
      {({ queries }) => {
        const waiting = queries.filter(({ routingGroup }) => routingGroup === group);
        if (waiting.length === 0) return <Text size="sm">{noneWaits(isAdmin)}</Text>;
        return (
          <>
            <QueueTable queries={waiting.slice(0, MAX_ROWS)} />
            {waiting.length > MAX_ROWS && (
              <To address={`/queue?filter=${encodeURIComponent(group)}`}>All {waiting.length.toLocaleString('en')}</To>
            )}
          </>
        );
      }}
    </RequestState>
  );
}
