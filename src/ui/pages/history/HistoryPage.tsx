import { ActionIcon, Button, Group, Pagination, Text, Tooltip } from '@mantine/core';
import { IconDownload, IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useIsFetching, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { call } from '../../client/call.ts';
import { SLOW_MS } from '../../client/queryClient.ts';
import { useClusters, useEarlier } from '../../client/resources.ts';
import type { ClusterState, ListedQuery, QueryPage, SearchRow } from '../../client/types.ts';
import { To } from '../../components/elements.tsx';
import { Framed, PageFrame } from '../../components/frame.tsx';
import { EarlierPages, RequestState } from '../../components/states.tsx';
import { useSession } from '../../session/session.ts';
import { entryOfListed, entryOfRow, type HistoryEntry } from './clusterOfRow.ts';
import { FilterBar } from './FilterBar.tsx';
import {
  type Filters,
  isListed,
  pageOf,
  parseFilters,
  toAddressParameters,
  toListParameters,
  toSearchRequest,
} from './filters.ts';
import { HistoryTable } from './HistoryTable.tsx';

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
  return (
    <PageFrame title="Query History" actions={<Actions filters={filters} />}>
      <FilterBar
        filters={filters}
        clusters={clusters.data?.map(({ name }) => name) ?? []}
        onlyUser={user.roles.includes('ADMIN') ? null : user.userName}
        onChange={show}
      />
      {isListed(filters) ? (
        <Listed filters={filters} clusters={backends} />
      ) : (
        <Searched filters={filters} page={page} clusters={backends} onShow={show} />
      )}
    </PageFrame>
  );
}

const none: readonly ClusterState[] = [];

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
