import { Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useEffect, useMemo, useRef } from 'react';
import { type RunningFilter, useEnd, useRunning } from '../../client/running.ts';
import type { RunningQuery } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { EndQuery } from '../../components/EndQuery.tsx';
import { ClusterName, GroupName } from '../../components/namedObject.tsx';
import { QueryId } from '../../components/QueryId.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Ago } from '../../components/time.tsx';
import classes from './queue.module.css';

export function Running() {
  const [filter, setFilter] = useAddressState('running');
  return (
    <>
      <Title order={2}>Running</Title>
      <TextInput
        label="Running id, backend, group, user or SQL"
        size="xs"
        value={filter}
        onChange={(event) => setFilter(event.currentTarget.value)}
      />
      <Paper withBorder p="xs">
        <RunningTable filter={filter} />
      </Paper>
    </>
  );
}

interface RunningQueriesProps {
  /** Filter by cluster or routing group; default: all. */
  readonly of?: RunningFilter;
  readonly filter?: string;
  /** Polling interval in milliseconds. */
  readonly interval?: number | undefined;
}

/** Running queries, oldest first, each with a button that ends it. */
export function RunningTable({ of = everywhere, filter = '', interval }: RunningQueriesProps) {
  const running = useRunning(of, interval);
  const end = useEnd();
  const latest = useRef(end);
  useEffect(() => {
    latest.current = end;
  });
  const columns = useMemo(() => columnsOf((query) => void latest.current(query)), []);
  return (
    <RequestState query={running} label="Loading the queries that run">
      {({ queries, complete }) => (
        <>
          <DataTable
            label="Running"
            columns={columns}
            rows={queries}
            rowId={idOf}
            filter={filter}
            sortIn="sortRunning"
            empty={
              <EmptyState
                title={
                  queries.length === 0
                    ? 'No query has run for longer than some seconds.'
                    : 'No query that runs matches.'
                }
              />
            }
          />
          {!complete && <Text size="sm">More run: these are the oldest.</Text>}
        </>
      )}
    </RequestState>
  );
}

const everywhere: RunningFilter = {};
const idOf = ({ queryId }: RunningQuery): string => queryId;

function columnsOf(onEnd: (query: RunningQuery) => void): readonly Column<RunningQuery>[] {
  return [
    {
      id: 'id',
      header: 'Query',
      accessorFn: idOf,
      cell: ({ row: { original } }) => <QueryId id={original.queryId} />,
    },
    {
      id: 'cluster',
      header: 'Backend',
      accessorFn: ({ cluster, routingGroup }) => `${cluster} ${routingGroup ?? ''}`,
      cell: ({ row: { original } }) => (
        <Stack gap={0}>
          <ClusterName name={original.cluster} />
          <Text size="xs" c="dimmed">
            {original.routingGroup === null ? 'group not known' : <GroupName name={original.routingGroup} />}
          </Text>
        </Stack>
      ),
    },
    { id: 'user', header: 'User', accessorFn: ({ user }) => user ?? '–' },
    {
      id: 'since',
      header: 'Since',
      accessorFn: ({ since }) => since,
      cell: ({ row: { original } }) => <Ago at={Date.parse(original.since)} />,
    },
    {
      id: 'sql',
      header: 'SQL',
      enableSorting: false,
      accessorFn: ({ queryText }) => queryText ?? '',
      cell: ({ row: { original } }) => (
        <Text size="sm" lineClamp={2} className={classes.why}>
          {original.queryText ?? 'not known'}
        </Text>
      ),
    },
    {
      id: 'end',
      header: 'Actions',
      enableSorting: false,
      cell: ({ row: { original } }) => <EndQuery query={original} onEnd={onEnd} />,
    },
  ];
}
