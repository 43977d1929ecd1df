import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { useLive } from './live.ts';
import { SLOW_MS } from './queryClient.ts';
import type { Overview, ProblemList, QuerySeries, RateSeries } from './types.ts';

const OVERVIEW = ['overview'];
const PROBLEMS = ['overview', 'problems'];
/** Polling interval of figures over a range, which the gateway caches for some seconds. */
const RANGE_MS = 20_000;

export function useOverview() {
  return useQuery({
    queryKey: OVERVIEW,
    queryFn: ({ signal }) => call<Overview>('/api/overview', { method: 'GET', signal }),
    refetchInterval: Math.min(useLive('clusters', OVERVIEW), SLOW_MS),
  });
}

export function useProblems() {
  useLive('clusters', PROBLEMS);
  useLive('rules', PROBLEMS);
  const interval = useLive('health', PROBLEMS);
  return useQuery({
    queryKey: PROBLEMS,
    queryFn: ({ signal }) => call<ProblemList>('/api/overview/problems', { method: 'GET', signal }),
    refetchInterval: Math.min(interval, SLOW_MS),
  });
}

/** Queries by cluster and time. @param lines clusters with a separate line */
export function useQuerySeries(minutes: string, lines: number) {
  return useQuery({
    queryKey: ['overview', 'queries', minutes],
    queryFn: ({ signal }) =>
      call<QuerySeries>(`/api/overview/queries?minutes=${minutes}&lines=${lines}`, { method: 'GET', signal }),
    refetchInterval: RANGE_MS,
    placeholderData: keepPreviousData,
  });
}

export function useRateSeries(minutes: string) {
  return useQuery({
    queryKey: ['overview', 'rates', minutes],
    queryFn: ({ signal }) => call<RateSeries>(`/api/overview/rates?minutes=${minutes}`, { method: 'GET', signal }),
    refetchInterval: RANGE_MS,
    placeholderData: keepPreviousData,
  });
}
