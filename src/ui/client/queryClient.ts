import { MutationCache, QueryClient } from '@tanstack/react-query';
import { ApiError } from './apiError.ts';

/** Between two looks at figures that change all the time. What else others change is reported by the event stream (live.ts). */
export const FIGURES_MS = 10_000;

/**
 * Between two looks at what a cluster that is switched off still runs, where it is the only one: with them a page stays well
 * below 20 requests a minute.
 */
export const DRAIN_MS = 7_500;

/** Between two looks at figures that cost the database something. */
export const SLOW_MS = 15_000;

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
