import { useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { LIVE_MS } from './queryClient.ts';
import type { ClusterState } from './types.ts';

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
