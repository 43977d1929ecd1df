import { Badge, Group, Stack, Text } from '@mantine/core';
import { IconArrowBarToUp, IconPlayerStop, IconTrash } from '@tabler/icons-react';
import { useMemo } from 'react';
import { useDrop, useEnd, useMoveFirst } from '../../client/changes.ts';
import { type RunningFilter, useQueue, useRunning } from '../../client/resources.ts';
import type { QueuedQuery, RunningQuery } from '../../client/types.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { CopyText, Faint, SmallAction, To } from '../../components/elements.tsx';
import { RequestState } from '../../components/frame.tsx';
import { ClusterName, GroupName, QueryId } from '../../components/names.tsx';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';

/** Queued queries; administrators can move them to the front or drop them. */
export function QueueTable({ queries }: { readonly queries: readonly QueuedQuery[] }) {
  const moveFirst = useMoveFirst();
  const drop = useDrop();
  const mayChange = useRole('ADMIN');
  const columns = useMemo(
    () => (mayChange ? [...facts, actions(moveFirst, drop)] : facts),
    [mayChange, moveFirst, drop],
  );
  const empty = 'No query that waits matches.';
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

type Act<T> = (query: T) => Promise<void>;

function actions(moveFirst: Act<QueuedQuery>, drop: Act<QueuedQuery>): Column<QueuedQuery> {
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

/** @param onEnd asks, then ends the query: `useEnd()` */
export function EndQuery({ query, onEnd }: { readonly query: RunningQuery; readonly onEnd: Act<RunningQuery> }) {
  const end = () => void onEnd(query);
  return (
    <SmallAction label="End" name={`End ${query.queryId}`} icon={IconPlayerStop} size="compact-sm" onClick={end} />
  );
}

interface RunningTableProps {
  /** Filter by cluster or routing group; default: all. */
  readonly of?: RunningFilter;
  readonly filter?: string;
  /** Polling interval in milliseconds. */
  readonly interval?: number | undefined;
}

/** Running queries, oldest first, each with a button that ends it. */
export function RunningTable({ of = everywhere, filter = '', interval }: RunningTableProps) {
  const running = useRunning(of, interval);
  const end = useEnd();
  const columns = useMemo(() => columnsOf(end), [end]);
  const none = 'No query has run for longer than some seconds.';
  return (
    <RequestState query={running} label="Loading the queries that run">
      {({ queries, complete }) => (
        <>
          <DataTable
            label="Running"
            columns={columns}
            rows={queries}
            rowId={({ queryId }) => queryId}
            filter={filter}
            sortIn="sortRunning"
            empty={queries.length === 0 ? none : 'No query that runs matches.'}
          />
          {!complete && <Text size="sm">More run: these are the oldest.</Text>}
        </>
      )}
    </RequestState>
  );
}

const everywhere: RunningFilter = {};

function columnsOf(onEnd: Act<RunningQuery>): readonly Column<RunningQuery>[] {
  return [
    { id: 'id', header: 'Query', value: ({ queryId }) => queryId, cell: ({ queryId }) => <QueryId id={queryId} /> },
    {
      ...{ id: 'cluster', header: 'Backend' },
      value: ({ cluster, routingGroup }) => `${cluster} ${routingGroup ?? ''}`,
      cell: ({ cluster, routingGroup }) => (
        <Stack gap={0}>
          <ClusterName name={cluster} />
          <Faint>{routingGroup === null ? 'group not known' : <GroupName name={routingGroup} />}</Faint>
        </Stack>
      ),
    },
    { id: 'user', header: 'User', value: ({ user }) => user ?? '–' },
    { id: 'since', header: 'Since', value: ({ since }) => since, cell: ({ since }) => <Ago at={Date.parse(since)} /> },
    {
      ...{ id: 'sql', header: 'SQL', value: ({ queryText }) => queryText ?? '', isSortable: false },
      cell: ({ queryText }) => (
        <Text size="sm" lineClamp={2} className={classes.why}>
          {queryText ?? 'not known'}
        </Text>
      ),
    },
    { id: 'end', header: 'Actions', cell: (query) => <EndQuery query={query} onEnd={onEnd} /> },
  ];
}
