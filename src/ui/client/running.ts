import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { confirm } from '../components/confirm.tsx';
import { notifyFailed, notifyWritten } from '../components/notify.ts';
import { call, callWhole } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { RunningQuery, RunningQueryList } from './types.ts';

/** Between two looks at all queries that run, where nothing else is looked at as often. */
const ALL_MS = 10_000;

/** Key of running queries among the queries. */
export const RUNNING = ['running'];

/** Which queries that run; left out, all. */
export interface RunningFilter {
  readonly cluster?: string;
  readonly routingGroup?: string;
  readonly user?: string;
}

/** Between two looks at whether one query runs, whose page reads the query itself more often. */
const ONE_MS = 20_000;

/**
 * Queries that run: all of them for administrators, their own for others.
 * @param interval between two looks, milliseconds; left out, fifteen seconds, or ten where all are asked for
 */
export function useRunning(of: RunningFilter = {}, interval?: number) {
  const parameters = new URLSearchParams({ ...of }).toString();
  const path = parameters === '' ? '/api/queries/running' : `/api/queries/running?${parameters}`;
  return useQuery({
    queryKey: [...RUNNING, parameters],
    queryFn: ({ signal }) => call<RunningQueryList>(path, { method: 'GET', signal }),
    refetchInterval: interval ?? (parameters === '' ? ALL_MS : SLOW_MS),
  });
}

/**
 * Looks for a query among those that run.
 * @param query its id, cluster and user; null: it is known not to run
 * @returns the query; null where it is not among them; undefined where that is not known
 */
export function useRunningQuery(query: SoughtQuery | null): RunningQuery | null | undefined {
  const parameters = new URLSearchParams({
    ...(query === null ? {} : { cluster: query.cluster }),
    ...(query?.user == null ? {} : { user: query.user }),
  }).toString();
  const { data } = useQuery({
    queryKey: [...RUNNING, parameters],
    queryFn: ({ signal }) => call<RunningQueryList>(`/api/queries/running?${parameters}`, { method: 'GET', signal }),
    refetchInterval: ONE_MS,
    enabled: query !== null,
  });
  if (query === null) return null;
  const running = data?.queries.find(({ queryId }) => queryId === query.queryId);
  return running ?? (data?.complete === true ? null : undefined);
}

/** What a query is looked for by among those that run. */
export interface SoughtQuery {
  readonly queryId: string;
  readonly cluster: string;
  readonly user: string | null;
}

/** Asks, then ends a running query at its cluster. */
export function useEnd(): (query: RunningQuery) => Promise<void> {
  const client = useQueryClient();
  const { mutate } = useMutation({
    mutationFn: ({ queryId }: RunningQuery) =>
      callWhole(`/api/queries/running/${encodeURIComponent(queryId)}`, { method: 'DELETE' }),
    onSuccess: async (answer, { queryId }) => {
      await client.invalidateQueries({ queryKey: RUNNING });
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
