import { queryOptions, useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { DRAIN_MS, LIVE_MS } from './queryClient.ts';
import type { ClusterState, Drain } from './types.ts';

/** Key of the clusters among the queries. */
export const CLUSTERS = ['clusters'];

/** All clusters, kept up to date: what changes elsewhere shows within two seconds. */
export function useClusters() {
  return useQuery({
    queryKey: CLUSTERS,
    queryFn: ({ signal }) => call<readonly ClusterState[]>('/api/clusters', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
}

/** What a cluster still runs; the roles API and ADMIN may ask. */
export function drainQuery(name: string) {
  return queryOptions({
    queryKey: [...CLUSTERS, name, 'drain'],
    queryFn: ({ signal }) => call<Drain>(`/api/clusters/${encodeURIComponent(name)}/drain`, { method: 'GET', signal }),
    refetchInterval: DRAIN_MS,
  });
}
