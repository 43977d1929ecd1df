import { MutationCache, QueryClient } from '@tanstack/react-query';
import { ApiError } from './call.ts';

/**
 * Polling interval of data without events: counts of queries, growing lists. The event stream (live.ts) reports changes
 * by others. With it every page stays below 18 requests a minute.
 */
export const SLOW_MS = 20_000;

export const USER = ['session', 'user'];

/** Responses of the gateway, shared by all pages: kept during a refetch, refetched only while the page is visible. */
export function createQueryClient(): QueryClient {
  const client: QueryClient = new QueryClient({
    mutationCache: new MutationCache({
      // A role was removed meanwhile: the pages immediately show what the user may still do.
      onError: (error) => {
        if (error instanceof ApiError && error.status === 403) void client.invalidateQueries({ queryKey: USER });
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 500,
        retry: (failures, error) => failures < 1 && error instanceof ApiError && error.mayPass,
        refetchOnWindowFocus: true,
        // The browser's offline detection is wrong for a gateway on the same machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  });
  return client;
}
