import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { AuditPage } from './types.ts';

/** Parameters of the audit that stand in the page's address as they are. */
export const auditFilters = ['kind', 'namespace', 'name', 'user', 'manager', 'source', 'from', 'to'] as const;
export type AuditFilters = Readonly<Record<(typeof auditFilters)[number], string>>;

/** Changes of a page. */
const PAGE_SIZE = 50;

/** One change; looked for where it is not among those that were read. @param id empty: none */
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

/** Who changed what, the newest first, page after page. */
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
    // What was read on to stays as it is while somebody reads it.
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > 1 ? false : SLOW_MS),
  });
}
