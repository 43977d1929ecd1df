import { ActionIcon, Group, Pagination, Paper, Text, Tooltip } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useSearchParams } from 'react-router';
import { call } from '../../client/call.ts';
import { useClusters } from '../../client/clusters.ts';
import { SLOW_MS } from '../../client/queryClient.ts';
import type { HistoryRow } from '../../client/types.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { useSession } from '../../session/session.ts';
import { FilterBar } from './FilterBar.tsx';
import { type Filters, filtersOf, pageOf, parametersOf, requestOf } from './filters.ts';
import { HistoryTable } from './HistoryTable.tsx';
import { QueryDialog } from './QueryDialog.tsx';

const PAGE_SIZE = 25;

interface HistoryPageData {
  readonly total: number;
  readonly rows: readonly HistoryRow[];
}

/** Query History: what ran where, and why there. */
export default function HistoryPage() {
  const [parameters, setParameters] = useSearchParams();
  const [opened, setOpened] = useState<HistoryRow | null>(null);
  const { user } = useSession();
  const clusters = useClusters();
  const filters = filtersOf(parameters);
  const page = pageOf(parameters);
  const history = useQuery({
    queryKey: ['history', filters, page],
    queryFn: ({ signal }) =>
      call<HistoryPageData>('/webapp/findQueryHistory', { body: requestOf(filters, page, PAGE_SIZE), signal }),
    placeholderData: keepPreviousData,
    // New queries come in at the first page; the others are left where they are while they are read.
    refetchInterval: page === 1 ? SLOW_MS : false,
  });
  const show = (next: Filters, nextPage = 1) => setParameters(parametersOf(next, nextPage));
  const refresh = (
    <Tooltip label="Read again">
      <ActionIcon
        size="lg"
        aria-label="Read the history again"
        loading={history.isFetching}
        onClick={() => void history.refetch()}
      >
        <IconRefresh size={20} aria-hidden />
      </ActionIcon>
    </Tooltip>
  );
  return (
    <PageFrame title="Query History" actions={refresh}>
      <FilterBar
        key={parameters.toString()}
        filters={filters}
        clusters={clusters.data?.map(({ name }) => name) ?? []}
        onlyUser={user.roles.includes('ADMIN') ? null : user.userName}
        onChange={show}
      />
      <QueryState query={history} label="Loading the history">
        {({ total, rows }) => (
          <>
            <Paper withBorder p="xs">
              <HistoryTable
                rows={rows}
                clusters={clusters.data ?? []}
                filtered={parameters.size > 0}
                queryId={filters.queryId}
                onOpen={setOpened}
              />
            </Paper>
            <Group justify="space-between" gap="sm">
              <Text size="sm" role="status">
                {totalText(total)}
              </Text>
              <Pagination
                total={Math.max(1, Math.ceil(total / PAGE_SIZE))}
                value={page}
                onChange={(next) => show(filters, next)}
                siblings={1}
                getControlProps={(control) => ({ 'aria-label': `${control} page` })}
                getItemProps={(item) => ({ 'aria-label': `Page ${item}` })}
                aria-label="Pages of the history"
              />
            </Group>
          </>
        )}
      </QueryState>
      {opened !== null && <QueryDialog row={opened} clusters={clusters.data ?? []} onClose={() => setOpened(null)} />}
    </PageFrame>
  );
}

/** Where the gateway stops counting (docs/rest-api.md, findQueryHistory). */
const TOTAL_BOUND = 1_000_000;

function totalText(total: number): string {
  const count = total.toLocaleString('en');
  if (total >= TOTAL_BOUND) return `${count} queries or more`;
  return total === 1 ? '1 query' : `${count} queries`;
}
