import { Anchor, Group, Text, UnstyledButton } from '@mantine/core';
import { type ReactNode, useMemo } from 'react';
import { Link } from 'react-router';
import type { ClusterState, HistoryRow } from '../../client/types.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { clusterText, engineLink } from './clusterOfRow.ts';
import classes from './history.module.css';

interface HistoryTableProps {
  readonly rows: readonly HistoryRow[];
  readonly clusters: readonly ClusterState[];
  /** Something is filtered by. */
  readonly filtered: boolean;
  /** The id that is filtered by; empty for none. */
  readonly queryId: string;
  readonly onOpen: (row: HistoryRow) => void;
}

/** A page of the history, newest first as the gateway gives it. */
export function HistoryTable({ rows, clusters, filtered, queryId, onOpen }: HistoryTableProps) {
  const columns = useMemo(() => columnsOf(clusters, onOpen), [clusters, onOpen]);
  const empty = (
    <EmptyState
      title={filtered ? 'No query matches the filters.' : 'No query has run yet, or the history is switched off.'}
    >
      {queryId.endsWith('_queue') && (
        <Anchor component={Link} to="/queue" size="sm">
          To the queries that wait for a cluster
        </Anchor>
      )}
    </EmptyState>
  );
  return <DataTable label="Queries" columns={columns} rows={rows} rowId={({ queryId }) => queryId} empty={empty} />;
}

/** Sorting one page of many would mislead. */
const column = (header: string, cell: (row: HistoryRow) => ReactNode): Column<HistoryRow> => ({
  id: header,
  header,
  enableSorting: false,
  cell: ({ row }) => cell(row.original),
});

function columnsOf(
  clusters: readonly ClusterState[],
  onOpen: (row: HistoryRow) => void,
): readonly Column<HistoryRow>[] {
  return [
    column('Submitted', ({ captureTime }) => (
      <Text size="sm" className={classes.time}>
        <Time at={captureTime} />
      </Text>
    )),
    column('Query id', (row) => (
      <Group gap={2} wrap="nowrap">
        <Anchor href={engineLink(row)} target="_blank" rel="noreferrer" size="sm" className={classes.id}>
          {row.queryId}
        </Anchor>
        <CopyText text={row.queryId} what="query id" />
      </Group>
    )),
    column('Backend', (row) => (
      <Text size="sm" className={classes.name}>
        {clusterText(row, clusters)}
      </Text>
    )),
    column('Routing group', ({ routingGroup }) => routingGroup ?? '–'),
    column('User', ({ user }) => <span className={classes.name}>{user ?? '–'}</span>),
    column('Source', ({ source }) => <span className={classes.name}>{source ?? '–'}</span>),
    column('SQL', (row) => <Sql row={row} onOpen={onOpen} />),
  ];
}

/** The beginning of a query's text; a click shows all of it. */
function Sql({ row, onOpen }: { readonly row: HistoryRow; readonly onOpen: (row: HistoryRow) => void }) {
  const beginning = row.queryText.slice(0, 200);
  return (
    <UnstyledButton
      className={classes.sql}
      onClick={() => onOpen(row)}
      aria-label={`Show query ${row.queryId}: ${beginning}`}
    >
      {beginning}
    </UnstyledButton>
  );
}
