import { useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { useLive } from './live.ts';
import type { GroupDetails, GroupState, LimitState } from './types.ts';

export const GROUPS_KEY = ['groups'];
const LIMITS = ['limits'];

/** All routing groups with their declarations, kept up to date. @param isAsked false disables the fetch */
export function useGroups(isAsked = true) {
  return useQuery({
    enabled: isAsked,
    queryKey: GROUPS_KEY,
    queryFn: ({ signal }) => call<readonly GroupState[]>('/api/groups', { method: 'GET', signal }),
    refetchInterval: useLive('groups', GROUPS_KEY),
  });
}

export function useGroup(name: string) {
  const queryKey = [...GROUPS_KEY, name];
  return useQuery({
    queryKey,
    queryFn: ({ signal }) => call<GroupDetails>(`/api/groups/${encodeURIComponent(name)}`, { method: 'GET', signal }),
    refetchInterval: useLive('groups', queryKey),
  });
}

export function useLimits() {
  return useQuery({
    queryKey: LIMITS,
    queryFn: ({ signal }) => call<readonly LimitState[]>('/api/limits', { method: 'GET', signal }),
    refetchInterval: useLive('limits', LIMITS),
  });
}
