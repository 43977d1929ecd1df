import { ActionIcon, Anchor, Button, Group, Pagination, Text, Tooltip } from '@mantine/core';
import { IconDownload, IconExternalLink, IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useIsFetching, useQuery, useQueryClient } from '@tanstack/react-query';
import { memo, type ReactNode, useEffect, useMemo } from 'react';
import { Link, useSearchParams } from 'react-router';
import { call, SLOW_MS } from '../../client/call.ts';
import { useClusters, useEarlier } from '../../client/resources.ts';
import type { ClusterState, ListedQuery, OutcomeView, QueryPage, SearchRow } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { CopyText, formatElapsed, To } from '../../components/elements.tsx';
import { OutcomeBadge } from '../../components/facts.tsx';
import { FilterForm } from '../../components/forms.tsx';
import { EarlierPages, EmptyState, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { ClusterName, DigestName, GroupName, QueryId, queryAddress } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import { useSession } from '../../session/session.ts';
import {
  type Filters,
  historyFilters,
  isListed,
  pageOf,
  parseFilters,
  toAddressParameters,
  toListParameters,
  toSearchRequest,
} from './filters.ts';
import classes from './history.module.css';

const PAGE_SIZE = 25;
const HISTORY = ['history'];

/** A page of queries with a cluster; on the first page also recent queries without a cluster. */
interface HistoryPageData {
  readonly total: number;
  readonly rows: readonly SearchRow[];
  readonly untaken: readonly ListedQuery[];
  /** True if more queries without a cluster exist than are listed. */
  readonly isCut: boolean;
}

/** Number of queries that the first page searches for queries without a cluster. */
const UNTAKEN_AMONG = 100;

async function readPage(filters: Filters, page: number, signal: AbortSignal): Promise<HistoryPageData> {
  const { total, rows } = await call<Pick<HistoryPageData, 'total' | 'rows'>>('/api/history/search', {
    body: toSearchRequest(filters, page, PAGE_SIZE),
    signal,
  });
  if (page > 1) return { total, rows, untaken: [], isCut: false };
  const parameters = toListParameters(filters);
  const last = rows.length < PAGE_SIZE ? undefined : rows.at(-1);
  if (last !== undefined) parameters.set('from', String(last.captureTime));
  parameters.set('limit', String(UNTAKEN_AMONG));
  const { queries, next } = await call<QueryPage>(`/api/queries?${parameters}`, { method: 'GET', signal });
  const taken = new Set(rows.map(({ queryId }) => queryId));
  const untaken = queries.filter(({ queryId, cluster, outcome }) => {
    const isUntaken = cluster === null || outcome?.state === 'REFUSED';
    return isUntaken && !taken.has(queryId);
  });
  return { total, rows, untaken, isCut: next !== null && untaken.length > 0 };
}

/** Query History: queries with their cluster and its reason. */
export default function HistoryPage() {
  const [parameters, setParameters] = useSearchParams();
  const { user } = useSession();
  const clusters = useClusters();
  const filters = parseFilters(parameters);
  const page = pageOf(parameters);
  const show = (next: Filters, nextPage = 1) => setParameters(toAddressParameters(next, nextPage));
  const backends = clusters.data ?? none;
  const varied = {
    cluster: { suggestions: backends.map(({ name }) => name) },
    ...(user.roles.includes('ADMIN') ? {} : { user: { fixed: user.userName } }),
  };
  return (
    <PageFrame title="Query History" actions={<Actions filters={filters} />}>
      <FilterForm<keyof Filters>
        fields={historyFilters.map((field) => ({ ...field, ...varied[field.name as 'cluster'] }))}
        filters={filters}
        onChange={(next) => show({ ...next, errorName: next.errorName.toUpperCase() })}
      />
      <Group gap="xs">
        <Text size="sm">Submitted in the last</Text>
        {quickRanges.map(({ label, ms }) => (
          <Button
            key={label}
            size="compact-sm"
            variant="default"
            onClick={() =>
              show({ ...filters, from: String(Math.floor((Date.now() - ms) / MINUTE_MS) * MINUTE_MS), to: '' })
            }
          >
            {label}
          </Button>
        ))}
      </Group>
      {isListed(filters) ? (
        <Listed filters={filters} clusters={backends} />
      ) : (
        <Searched filters={filters} page={page} clusters={backends} onShow={show} />
      )}
    </PageFrame>
  );
}

const none: readonly ClusterState[] = [];
const MINUTE_MS = 60_000;

const quickRanges = [
  { label: '15 min', ms: 15 * MINUTE_MS },
  { label: 'hour', ms: 60 * MINUTE_MS },
  { label: '24 h', ms: 1440 * MINUTE_MS },
  { label: '7 days', ms: 10_080 * MINUTE_MS },
] as const;

/** Actions: save all pages, and refetch. */
function Actions({ filters }: { readonly filters: Filters }) {
  const client = useQueryClient();
  const isReading = useIsFetching({ queryKey: HISTORY }) > 0;
  const parameters = toListParameters(filters);
  return (
    <Group gap="xs">
      {(['csv', 'json'] as const).map((format) => (
        <Button
          key={format}
          component="a"
          href={`/api/queries/export?${parameters}&format=${format}`}
          download={`queries.${format}`}
          size="xs"
          variant="default"
          leftSection={<IconDownload size={16} aria-hidden />}
          aria-label={`Export as ${format.toUpperCase()}`}
        >
          {format.toUpperCase()}
        </Button>
      ))}
      <Tooltip label="Read again">
        <ActionIcon
          size="lg"
          aria-label="Read the history again"
          loading={isReading}
          onClick={() => void client.refetchQueries({ queryKey: HISTORY, type: 'active' })}
        >
          <IconRefresh size={20} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

interface ShownProps {
  readonly filters: Filters;
  readonly clusters: readonly ClusterState[];
}

interface SearchedProps extends ShownProps {
  readonly page: number;
  readonly onShow: (filters: Filters, page: number) => void;
}

/** A page of all queries with a cluster; the first page includes queries without one. */
function Searched({ filters, page, clusters, onShow }: SearchedProps) {
  const [, setParameters] = useSearchParams();
  const history = useQuery({
    queryKey: [...HISTORY, filters, page],
    queryFn: ({ signal }) => readPage(filters, page, signal),
    placeholderData: keepPreviousData,
    // New queries appear on the first page; the other pages stay unchanged while they are read.
    refetchInterval: page === 1 ? SLOW_MS : false,
  });
  const read = history.data;
  const entries = useMemo(() => entriesOf(read, clusters), [read, clusters]);
  const last = read === undefined ? null : pagesOf(read.total);
  const isBeyond = last !== null && page > last && !history.isPlaceholderData;
  useEffect(() => {
    // There are fewer queries than the address states, e.g. since it was shared.
    if (isBeyond) setParameters(toAddressParameters(filters, last), { replace: true });
  });
  return (
    <RequestState query={history} label="Loading the history">
      {({ total, untaken, isCut }) => (
        <>
          <Framed>
            <HistoryTable
              rows={entries}
              filtered={entries.length === 0 && toAddressParameters(filters, 1).size > 0}
              queryId={entries.length === 0 ? filters.queryId : ''}
            />
          </Framed>
          <Group justify="space-between" gap="sm">
            <Group gap="sm">
              <Text size="sm" role="status">
                {totalText(total)}
              </Text>
              <Untaken count={untaken.length} isCut={isCut} page={page} filters={filters} />
            </Group>
            <Pagination
              total={pagesOf(total)}
              value={page}
              onChange={(next) => onShow(filters, next)}
              siblings={1}
              getControlProps={(control) => ({ 'aria-label': `${control} page` })}
              getItemProps={(item) => ({ 'aria-label': `Page ${item}` })}
              aria-label="Pages of the history"
            />
          </Group>
        </>
      )}
    </RequestState>
  );
}

function entriesOf(data: HistoryPageData | undefined, clusters: readonly ClusterState[]): readonly HistoryEntry[] {
  const rows = data?.rows.map((row) => entryOfRow(row, clusters)) ?? [];
  const untaken = data?.untaken ?? [];
  if (untaken.length === 0) return rows;
  return [...rows, ...untaken.map((query) => entryOfListed(query, clusters))].sort((a, b) => b.at - a.at);
}

interface UntakenProps {
  readonly count: number;
  readonly isCut: boolean;
  readonly page: number;
  readonly filters: Filters;
}

function Untaken({ count, isCut, page, filters }: UntakenProps) {
  if (page === 1 && count === 0) return null;
  return (
    <Text size="sm" c="dimmed" component="div">
      {count > 0 && `and ${isCut ? 'the newest ' : ''}${count} that no backend took. `}
      <To address={`/history?${toAddressParameters({ ...filters, state: 'REFUSED,DENIED' }, 1)}`}>
        {page === 1 ? 'All that were refused or denied' : 'Those that were refused or denied'}
      </To>
    </Text>
  );
}

/** Queries by outcome or group of users, including queries without a cluster. */
function Listed({ filters, clusters }: ShownProps) {
  const parameters = toListParameters(filters);
  parameters.set('limit', String(PAGE_SIZE));
  const queries = useEarlier<QueryPage>([...HISTORY, 'listed', filters], '/api/queries', parameters);
  return (
    <RequestState query={queries} label="Loading the history">
      {({ pages }) => (
        <>
          <Framed>
            <HistoryTable
              rows={pages.flatMap((each) => each.queries).map((query) => entryOfListed(query, clusters))}
              filtered
              queryId={filters.queryId}
            />
          </Framed>
          <EarlierPages query={queries} what="queries" />
        </>
      )}
    </RequestState>
  );
}

const pagesOf = (total: number): number => Math.max(1, Math.ceil(total / PAGE_SIZE));

/** Maximum total that the gateway counts (docs/rest-api.md#calls-of-the-web-application). */
const TOTAL_BOUND = 100_000;

function totalText(total: number): string {
  const count = total.toLocaleString('en');
  if (total >= TOTAL_BOUND) return `${count} queries or more`;
  return total === 1 ? '1 query' : `${count} queries`;
}

interface HistoryTableProps {
  readonly rows: readonly HistoryEntry[];
  /** True if there is a filter; used without rows, like `queryId`. */
  readonly filtered: boolean;
  /** The filtered id; may be empty. */
  readonly queryId: string;
}

/** A page of the history, newest first. Memoized, as its rows have many parts. */
const HistoryTable = memo(({ rows, filtered, queryId }: HistoryTableProps) => {
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

const named = (text: ReactNode) => <span className={classes.name}>{text || '–'}</span>;

interface FilteredProps {
  readonly by: 'user' | 'source';
  readonly value: string | null;
}

/** A value with a link to the queries that have it. */
function Filtered({ by, value }: FilteredProps) {
  if (value === null || value === '') return '–';
  return <To address={`/history?${new URLSearchParams({ [by]: value })}`}>{value}</To>;
}

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
  {
    ...{ id: 'Backend', header: 'Backend' },
    cell: ({ cluster, isCluster }) => named(isCluster ? <ClusterName name={cluster} /> : cluster),
  },
  {
    ...{ id: 'Routing group', header: 'Routing group' },
    cell: ({ routingGroup, bypassed }) => {
      if (routingGroup !== null) return <GroupName name={routingGroup} />;
      return bypassed ? 'not through the gateway' : '–';
    },
  },
  { id: 'User', header: 'User', cell: ({ user }) => named(<Filtered by="user" value={user} />) },
  { id: 'Source', header: 'Source', cell: ({ source }) => named(<Filtered by="source" value={source} />) },
  {
    ...{ id: 'SQL', header: 'SQL' },
    cell: ({ queryId, queryText, digest }) => (
      <>
        <Link className={classes.sql} to={queryAddress(queryId)}>
          {queryText.slice(0, 200)}
        </Link>
        {digest !== null && <DigestName name={digest} />}
      </>
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

/** Fields of a cluster that identify where a query ran. */
type NamedUrl = Pick<ClusterState, 'name' | 'proxyTo'> & Partial<Pick<ClusterState, 'externalUrl'>>;

interface HistoryEntry {
  readonly queryId: string;
  readonly queryText: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly routingGroup: string | null;
  /** Names of its cluster; empty if no cluster received it. */
  readonly cluster: string;
  /** True if `cluster` is the name of a cluster that exists. */
  readonly isCluster: boolean;
  /** Link to the engine's page of it, or null. */
  readonly enginePage: string | null;
  readonly at: number;
  /** True if it was not sent through the gateway. */
  readonly bypassed: boolean;
  readonly digest: string | null;
  /** Null: it runs, or its end was not observed. */
  readonly outcome: Pick<OutcomeView, 'state' | 'errorName' | 'elapsedMillis'> | null;
}

function entryOfRow(row: SearchRow, clusters: readonly NamedUrl[]): HistoryEntry {
  const { queryId, queryText, user = null, source = null, routingGroup = null, captureTime } = row;
  const { state, errorName = null, elapsedMillis = null, digest = null } = row;
  const cluster = clusterText(row, clusters);
  return {
    ...{ queryId, queryText, user, source, routingGroup, bypassed: false, digest, at: captureTime },
    ...{ cluster, isCluster: clusters.some(({ name }) => name === cluster) },
    enginePage: engineLink(row),
    outcome: state === undefined ? null : { state, errorName, elapsedMillis },
  };
}

function entryOfListed(query: ListedQuery, clusters: readonly NamedUrl[]): HistoryEntry {
  const { queryId, queryText, user, source, routingGroup, cluster, created, bypassed, outcome } = query;
  // The chosen cluster of a rejected query does not know it.
  const present = outcome?.state === 'REFUSED' ? undefined : clusters.find(({ name }) => name === cluster);
  const engine = present?.externalUrl ?? present?.proxyTo ?? null;
  return {
    ...{
      queryId,
      queryText,
      user,
      source,
      routingGroup,
      bypassed,
      digest: outcome?.digest ?? null,
      outcome,
      at: Date.parse(created),
    },
    ...{ cluster: cluster ?? '', isCluster: present !== undefined },
    enginePage: engine === null ? null : engineLink({ queryId, backendUrl: engine }),
  };
}

/**
 * The cluster that a query ran on: the stored name. A row without one (of Trino Gateway) only has the URL, which
 * several clusters may share: then all of them are named.
 */
function clusterText(
  { cluster, backendUrl }: Pick<SearchRow, 'cluster' | 'backendUrl'>,
  clusters: readonly NamedUrl[],
): string {
  if (cluster !== undefined) return cluster;
  const names = clusters.filter(({ proxyTo }) => proxyTo === backendUrl).map(({ name }) => name);
  return names.length === 0 ? backendUrl : names.join(' or ');
}

function engineLink({
  externalUrl,
  backendUrl,
  queryId,
}: Pick<SearchRow, 'externalUrl' | 'backendUrl' | 'queryId'>): string {
  return `${externalUrl ?? backendUrl}/ui/query.html?${encodeURIComponent(queryId)}`;
}
