import { ActionIcon, Button, Group, Pagination, Paper, Text, Tooltip } from '@mantine/core';
import { IconDownload, IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useInfiniteQuery, useIsFetching, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { useSearchParams } from 'react-router';
import { call } from '../../client/call.ts';
import { useClusters } from '../../client/clusters.ts';
import { SLOW_MS } from '../../client/queryClient.ts';
import type { ClusterState, QueryPage, SearchRow } from '../../client/types.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { useSession } from '../../session/session.ts';
import { entryOfListed, entryOfRow } from './clusterOfRow.ts';
import { FilterBar } from './FilterBar.tsx';
import { type Filters, filtersOf, isListed, listParametersOf, pageOf, parametersOf, requestOf } from './filters.ts';
import { HistoryTable } from './HistoryTable.tsx';

const PAGE_SIZE = 25;
/** Key of what is shown among the queries. */
const HISTORY = ['history'];

interface HistoryPageData {
  readonly total: number;
  readonly rows: readonly SearchRow[];
}

/** Query History: what ran where, and why there. */
export default function HistoryPage() {
  const [parameters, setParameters] = useSearchParams();
  const { user } = useSession();
  const clusters = useClusters();
  const filters = filtersOf(parameters);
  const page = pageOf(parameters);
  const show = (next: Filters, nextPage = 1) => setParameters(parametersOf(next, nextPage));
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

/** What can be done with what is shown: it can be saved, all pages of it, and read again. */
function Actions({ filters }: { readonly filters: Filters }) {
  return (
    <Group gap="xs">
      {(['csv', 'json'] as const).map((format) => {
        const parameters = listParametersOf(filters);
        parameters.set('format', format);
        const name = format.toUpperCase();
        return (
          <Button
            key={format}
            component="a"
            href={`/api/queries/export?${parameters}`}
            download={`queries.${format}`}
            size="xs"
            variant="default"
            leftSection={<IconDownload size={16} aria-hidden />}
            aria-label={`Export as ${name}`}
          >
            {name}
          </Button>
        );
      })}
      <Refresh />
    </Group>
  );
}

/** Reads what is shown again. */
function Refresh() {
  const client = useQueryClient();
  const isReading = useIsFetching({ queryKey: HISTORY }) > 0;
  return (
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

/** A page of all queries that clusters took. */
function Searched({ filters, page, clusters, onShow }: SearchedProps) {
  const [, setParameters] = useSearchParams();
  const history = useQuery({
    queryKey: [...HISTORY, filters, page],
    queryFn: ({ signal }) =>
      call<HistoryPageData>('/api/history/search', { body: requestOf(filters, page, PAGE_SIZE), signal }),
    placeholderData: keepPreviousData,
    // New queries come in at the first page; the others are left where they are while they are read.
    refetchInterval: page === 1 ? SLOW_MS : false,
  });
  const read = history.data?.rows;
  const entries = useMemo(() => read?.map((row) => entryOfRow(row, clusters)) ?? [], [read, clusters]);
  const last = history.data === undefined ? null : Math.max(1, Math.ceil(history.data.total / PAGE_SIZE));
  const isBeyond = last !== null && page > last && !history.isPlaceholderData;
  useEffect(() => {
    // There are fewer queries than the address says, e.g. since it was sent.
    if (isBeyond) setParameters(parametersOf(filters, last), { replace: true });
  });
  return (
    <QueryState query={history} label="Loading the history">
      {({ total, rows }) => (
        <>
          <Paper withBorder p="xs">
            <HistoryTable
              rows={entries}
              filtered={rows.length === 0 && parametersOf(filters, 1).size > 0}
              queryId={rows.length === 0 ? filters.queryId : ''}
            />
          </Paper>
          <Group justify="space-between" gap="sm">
            <Text size="sm" role="status">
              {totalText(total)}
            </Text>
            <Pagination
              total={Math.max(1, Math.ceil(total / PAGE_SIZE))}
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
    </QueryState>
  );
}

/** Queries that ended in a way, or of a group of users, those that no cluster took among them. */
function Listed({ filters, clusters }: ShownProps) {
  const queries = useInfiniteQuery({
    queryKey: [...HISTORY, 'listed', filters],
    queryFn: ({ signal, pageParam }) => {
      const parameters = listParametersOf(filters);
      parameters.set('limit', String(PAGE_SIZE));
      if (pageParam !== null) parameters.set('after', pageParam);
      return call<QueryPage>(`/api/queries?${parameters}`, { method: 'GET', signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    placeholderData: keepPreviousData,
    // What was read on to stays as it is while somebody reads it.
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > 1 ? false : SLOW_MS),
  });
  return (
    <QueryState query={queries} label="Loading the history">
      {({ pages }) => (
        <>
          <Paper withBorder p="xs">
            <HistoryTable
              rows={pages.flatMap((each) => each.queries).map((query) => entryOfListed(query, clusters))}
              filtered
              queryId={filters.queryId}
            />
          </Paper>
          {queries.hasNextPage ? (
            <Group>
              <Button
                variant="default"
                loading={queries.isFetchingNextPage}
                onClick={() => void queries.fetchNextPage()}
              >
                Earlier queries
              </Button>
            </Group>
          ) : (
            <Text size="sm" c="dimmed">
              There are no earlier queries.
            </Text>
          )}
        </>
      )}
    </QueryState>
  );
}

/** Where the gateway stops counting (docs/rest-api.md#calls-of-the-web-application). */
const TOTAL_BOUND = 100_000;

function totalText(total: number): string {
  const count = total.toLocaleString('en');
  if (total >= TOTAL_BOUND) return `${count} queries or more`;
  return total === 1 ? '1 query' : `${count} queries`;
}
