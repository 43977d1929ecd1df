import { ActionIcon, Anchor } from '@mantine/core';
import { IconExternalLink } from '@tabler/icons-react';
import { memo } from 'react';
import { Link } from 'react-router';
import { formatElapsed } from '../../components/amounts.ts';
import { OutcomeBadge } from '../../components/badges.tsx';
import { CopyText } from '../../components/CopyText.tsx';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { queryAddress } from '../../components/links.ts';
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
  return <DataTable label="Queries" columns={columns} rows={rows} rowId={(row) => row.queryId} empty={empty} />;
});

const named = (text: string | null) => <span className={classes.name}>{text || '–'}</span>;

/** Sorting a single page would mislead. */
const columns: readonly Column<HistoryEntry>[] = [
  {
    ...{ id: 'Submitted', header: 'Submitted' },
    cell: ({ at }) => (
      <span className={classes.time}>
        <Time at={at} />
      </span>
    ),
  },
  {
    ...{ id: 'Query id', header: 'Query id' },
    cell: ({ queryId, enginePage }) => (
      <div className={classes.id}>
        <QueryId id={queryId} />
        <CopyText text={queryId} what="query id" />
        {enginePage !== null && (
          <ActionIcon
            {...{ component: 'a', href: enginePage, target: '_blank', rel: 'noreferrer' }}
            aria-label={`The engine's page of ${queryId}`}
            title="The engine's page"
          >
            <IconExternalLink size={16} aria-hidden />
          </ActionIcon>
        )}
      </div>
    ),
  },
  { id: 'Outcome', header: 'Outcome', cell: ({ outcome }) => <Outcome outcome={outcome} /> },
  { id: 'Backend', header: 'Backend', cell: ({ cluster }) => named(cluster) },
  { id: 'Routing group', header: 'Routing group', cell: ({ routingGroup }) => routingGroup ?? '–' },
  { id: 'User', header: 'User', cell: ({ user }) => named(user) },
  { id: 'Source', header: 'Source', cell: ({ source }) => named(source) },
  {
    ...{ id: 'SQL', header: 'SQL' },
    cell: ({ queryId, queryText }) => (
      <Link className={classes.sql} to={queryAddress(queryId)}>
        {queryText.slice(0, 200)}
      </Link>
    ),
  },
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
