import { Stack, Text } from '@mantine/core';
import { IconPlayerStop } from '@tabler/icons-react';
import { useEffect, useMemo, useRef } from 'react';
import { useEnd } from '../../client/changes.ts';
import { type RunningFilter, useRunning } from '../../client/resources.ts';
import type { RunningQuery } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, SmallAction } from '../../components/elements.tsx';
import { ClusterName, GroupName } from '../../components/namedObject.tsx';
import { QueryId } from '../../components/QueryId.tsx';
import { EmptyState, RequestState } from '../../components/states.tsx';
import { Ago } from '../../components/time.tsx';
import classes from './queue.module.css';

interface EndQueryProps {
  readonly query: RunningQuery;
  /** Asks, then ends the query: `useEnd()`. */
  readonly onEnd: (query: RunningQuery) => Promise<void>;
}

export function EndQuery({ query, onEnd }: EndQueryProps) {
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
  const latest = useRef(end);
  useEffect(() => {
    latest.current = end;
  });
  const columns = useMemo(() => columnsOf((query) => latest.current(query)), []);
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
            empty={<EmptyState title={queries.length === 0 ? none : 'No query that runs matches.'} />}
          />
          {!complete && <Text size="sm">More run: these are the oldest.</Text>}
        </>
      )}
    </RequestState>
  );
}

const everywhere: RunningFilter = {};

function columnsOf(onEnd: EndQueryProps['onEnd']): readonly Column<RunningQuery>[] {
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
