import { useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { LIVE_MS } from './queryClient.ts';
import type { GroupState, LimitState } from './types.ts';

/** All routing groups with what is declared of them, kept up to date. */
export function useGroups() {
  return useQuery({
    queryKey: ['groups'],
    queryFn: ({ signal }) => call<readonly GroupState[]>('/api/groups', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
}

/** All limits of users and sources, kept up to date. */
export function useLimits() {
  return useQuery({
    queryKey: ['limits'],
    queryFn: ({ signal }) => call<readonly LimitState[]>('/api/limits', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
}
