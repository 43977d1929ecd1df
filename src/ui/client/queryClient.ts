import { MutationCache, QueryClient } from '@tanstack/react-query';
import { ApiError } from './apiError.ts';

/**
 * Between two looks at what no event reports: counts of queries, lists that grow. What others change is reported by the event
 * stream (live.ts). With it every page stays below 18 requests a minute, whatever it shows.
 */
export const SLOW_MS = 20_000;

/** Key of the caller among the queries. */
export const USER = ['session', 'user'];

/** Answers of the gateway, shared by all pages: kept during a refetch, refetched only while the page is visible. */
export function createQueryClient(): QueryClient {
  const client: QueryClient = new QueryClient({
    mutationCache: new MutationCache({
      // A role was taken away meanwhile: the pages show at once what the user may still do.
      onError: (error) => {
        if (error instanceof ApiError && error.status === 403) void client.invalidateQueries({ queryKey: USER });
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 500,
        retry: (failures, error) => failures < 1 && error instanceof ApiError && error.mayPass,
        refetchOnWindowFocus: true,
        // The browser's own idea of being offline is wrong for a gateway on the same machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  });
  return client;
}
