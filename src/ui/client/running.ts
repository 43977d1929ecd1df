import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { confirm } from '../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../components/notify.ts';
import { call, callWhole } from './call.ts';
import { FIGURES_MS } from './queryClient.ts';
import type { RunningQuery, RunningQueryList } from './types.ts';

/** Key of running queries among the queries. */
const RUNNING = ['running'];

/** Which queries that run; left out, all. */
export interface RunningFilter {
  readonly cluster?: string;
  readonly routingGroup?: string;
}

/** Queries that run: all of them for administrators, their own for others. */
export function useRunning(of: RunningFilter = {}) {
  const parameters = new URLSearchParams({ ...of }).toString();
  const path = parameters === '' ? '/api/queries/running' : `/api/queries/running?${parameters}`;
  return useQuery({
    queryKey: [...RUNNING, parameters],
    queryFn: ({ signal }) => call<RunningQueryList>(path, { method: 'GET', signal }),
    refetchInterval: FIGURES_MS,
  });
}

/** Asks, then ends a running query at its cluster. */
export function useEnd(): (query: RunningQuery) => Promise<void> {
  const client = useQueryClient();
  const { mutate } = useMutation({
    mutationFn: ({ queryId }: RunningQuery) =>
      callWhole(`/api/queries/running/${encodeURIComponent(queryId)}`, { method: 'DELETE' }),
    onSuccess: async (answer, { queryId }) => {
      await client.invalidateQueries({ queryKey: RUNNING });
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
