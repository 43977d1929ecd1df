import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { AuditPage } from './types.ts';

/** Parameters of the audit that are copied from the page's address. */
export const auditFilters = ['kind', 'namespace', 'name', 'user', 'manager', 'source', 'from', 'to'] as const;
export type AuditFilters = Readonly<Record<(typeof auditFilters)[number], string>>;

const PAGE_SIZE = 50;

/** One change; fetched if it is not in the list. @param id may be empty */
export function useAuditedChange(id: string, isKnown: boolean) {
  return useQuery({
    queryKey: ['audit', 'change', id],
    queryFn: async ({ signal }) => {
      const path = `/api/audit?id=${encodeURIComponent(id)}`;
      return (await call<AuditPage>(path, { method: 'GET', signal })).changes[0] ?? null;
    },
    enabled: id !== '' && !isKnown,
  });
}

export function useAudit(filters: AuditFilters) {
  return useInfiniteQuery({
    queryKey: ['audit', filters],
    queryFn: ({ signal, pageParam }) => {
      const parameters = new URLSearchParams(Object.entries(filters).filter(([, value]) => value !== ''));
      parameters.set('match', 'prefix');
      parameters.set('limit', String(PAGE_SIZE));
      if (pageParam !== null) parameters.set('after', pageParam);
      return call<AuditPage>(`/api/audit?${parameters}`, { method: 'GET', signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    placeholderData: keepPreviousData,
    // A list with several pages stays unchanged while the user reads it.
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > 1 ? false : SLOW_MS),
  });
}
