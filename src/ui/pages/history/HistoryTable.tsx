import { ActionIcon, Anchor } from '@mantine/core';
import { IconExternalLink } from '@tabler/icons-react';
import { memo, type ReactNode } from 'react';
import { Link } from 'react-router';
import { formatElapsed } from '../../components/amounts.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { queryAddress } from '../../components/links.ts';
import { OutcomeBadge } from '../../components/OutcomeBadge.tsx';
import { QueryId } from '../../components/QueryId.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import type { HistoryEntry } from './clusterOfRow.ts';
import classes from './history.module.css';

interface HistoryTableProps {
  readonly rows: readonly HistoryEntry[];
  /** True if there is a filter; used without rows, like `queryId`. */
  readonly filtered: boolean;
  /** The filtered id; may be empty. */
  readonly queryId: string;
}

/** A page of the history, newest first. Memoized, as its rows have many parts. */
export const HistoryTable = memo(({ rows, filtered, queryId }: HistoryTableProps) => {
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
  return <DataTable label="Queries" columns={columns} rows={rows} rowId={idOf} empty={empty} />;
});

const idOf = ({ queryId }: HistoryEntry): string => queryId;

/** Sorting a single page would mislead. */
const column = (header: string, cell: (row: HistoryEntry) => ReactNode): Column<HistoryEntry> => ({
  id: header,
  header,
  enableSorting: false,
  cell: ({ row }) => cell(row.original),
});

const columns: readonly Column<HistoryEntry>[] = [
  column('Submitted', ({ at }) => (
    <span className={classes.time}>
      <Time at={at} />
    </span>
  )),
  column('Query id', (row) => (
    <div className={classes.id}>
      <QueryId id={row.queryId} />
      <CopyText text={row.queryId} what="query id" />
      {row.enginePage !== null && (
        <ActionIcon
          component="a"
          href={row.enginePage}
          target="_blank"
          rel="noreferrer"
          aria-label={`The engine's page of ${row.queryId}`}
          title="The engine's page"
        >
          <IconExternalLink size={16} aria-hidden />
        </ActionIcon>
      )}
    </div>
  )),
  column('Outcome', ({ outcome }) => <Outcome outcome={outcome} />),
  column('Backend', ({ cluster }) => <span className={classes.name}>{cluster || '–'}</span>),
  column('Routing group', ({ routingGroup }) => routingGroup ?? '–'),
  column('User', ({ user }) => <span className={classes.name}>{user ?? '–'}</span>),
  column('Source', ({ source }) => <span className={classes.name}>{source ?? '–'}</span>),
  column('SQL', ({ queryId, queryText }) => (
    <Link className={classes.sql} to={queryAddress(queryId)}>
      {queryText.slice(0, 200)}
    </Link>
  )),
];

/** State, duration and error of a query. */
function Outcome({ outcome }: Pick<HistoryEntry, 'outcome'>) {
  if (outcome === null) return '–';
  const { state, errorName, elapsedMillis } = outcome;
  return (
    <div className={classes.outcome}>
      <OutcomeBadge state={state} />
      {errorName != null && <span className={classes.name}>{errorName}</span>}
      {elapsedMillis != null && <span className={classes.elapsed}>{formatElapsed(elapsedMillis)}</span>}
    </div>
  );
}
