import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { confirm } from '../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../components/notify.ts';
import { call, callWhole } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { RunningQuery, RunningQueryList } from './types.ts';

/** Polling interval of all running queries, if no other data is polled as often. */
const ALL_MS = 10_000;

export const RUNNING_KEY = ['running'];

/** Filter of running queries; by default all. */
export interface RunningFilter {
  readonly cluster?: string;
  readonly routingGroup?: string;
  readonly user?: string;
}

/** Polling interval of one running query; its page polls the query itself more often. */
const ONE_MS = 20_000;

/**
 * Running queries: all for administrators, their own for others.
 * @param interval polling interval in milliseconds; default: fifteen seconds, or ten for all queries
 */
export function useRunning(of: RunningFilter = {}, interval?: number) {
  const parameters = new URLSearchParams({ ...of }).toString();
  const path = parameters === '' ? '/api/queries/running' : `/api/queries/running?${parameters}`;
  return useQuery({
    queryKey: [...RUNNING_KEY, parameters],
    queryFn: ({ signal }) => call<RunningQueryList>(path, { method: 'GET', signal }),
    refetchInterval: interval ?? (parameters === '' ? ALL_MS : SLOW_MS),
  });
}

/**
 * Finds a query among the running queries.
 * @param query its id, cluster and user; null: it is known not to run
 * @returns the query; null if it does not run; undefined if unknown
 */
export function useRunningQuery(query: SoughtQuery | null): RunningQuery | null | undefined {
  const parameters = new URLSearchParams({
    ...(query === null ? {} : { cluster: query.cluster }),
    ...(query?.user == null ? {} : { user: query.user }),
  }).toString();
  const { data } = useQuery({
    queryKey: [...RUNNING_KEY, parameters],
    queryFn: ({ signal }) => call<RunningQueryList>(`/api/queries/running?${parameters}`, { method: 'GET', signal }),
    refetchInterval: ONE_MS,
    enabled: query !== null,
  });
  if (query === null) return null;
  const running = data?.queries.find(({ queryId }) => queryId === query.queryId);
  return running ?? (data?.complete === true ? null : undefined);
}

export interface SoughtQuery {
  readonly queryId: string;
  readonly cluster: string;
  readonly user: string | null;
}

export function useEnd(): (query: RunningQuery) => Promise<void> {
  const client = useQueryClient();
  const { mutate } = useMutation({
    mutationFn: ({ queryId }: RunningQuery) =>
      callWhole(`/api/queries/running/${encodeURIComponent(queryId)}`, { method: 'DELETE' }),
    onSuccess: async (answer, { queryId }) => {
      await client.invalidateQueries({ queryKey: RUNNING_KEY });
      void client.invalidateQueries({ queryKey: ['query', queryId], exact: true });
      notifyWritten(`${queryId} is ended.`, answer);
    },
    onError: (error, { queryId }) => notifyFailed(`${queryId} could not be ended`, error),
  });
  return async (query) => {
    const { queryId, user, cluster } = query;
    const text = `The query of ${user ?? 'nobody who is known'} on ${cluster} ends; its client gets an error that says that it was canceled.`;
    if (await confirm({ title: `End ${queryId}?`, text, action: 'End', dangerous: true })) mutate(query);
  };
}
