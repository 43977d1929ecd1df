import { queryOptions, useQuery } from '@tanstack/react-query';
import { call } from './call.ts';
import { useLive } from './live.ts';
import { DRAIN_MS, SLOW_MS } from './queryClient.ts';
import type { ClusterDetails, ClusterState, Drain } from './types.ts';

/** Key of the clusters among the queries. */
export const CLUSTERS = ['clusters'];

/** All clusters, kept up to date: what changes elsewhere shows within two seconds, counts of queries every fifteen. */
export function useClusters() {
  return useQuery({
    queryKey: CLUSTERS,
    queryFn: ({ signal }) => call<readonly ClusterState[]>('/api/clusters', { method: 'GET', signal }),
    refetchInterval: Math.min(useLive('clusters', CLUSTERS), SLOW_MS),
  });
}

/** One cluster whole, as it is now. */
export function clusterQuery(name: string) {
  return queryOptions({
    queryKey: [...CLUSTERS, name],
    queryFn: ({ signal }) =>
      call<ClusterDetails>(`/api/clusters/${encodeURIComponent(name)}`, { method: 'GET', signal }),
  });
}

/** One cluster whole, kept up to date. */
export function useCluster(name: string) {
  const query = clusterQuery(name);
  return useQuery({ ...query, refetchInterval: Math.min(useLive('clusters', query.queryKey), SLOW_MS) });
}

/** What a cluster still runs; the roles API and ADMIN may ask. @param drained how many clusters are asked about */
export function drainQuery(name: string, drained = 1) {
  return queryOptions({
    queryKey: [...CLUSTERS, name, 'drain'],
    queryFn: ({ signal }) => call<Drain>(`/api/clusters/${encodeURIComponent(name)}/drain`, { method: 'GET', signal }),
    // All of them together make as many calls as one.
    refetchInterval: DRAIN_MS * Math.max(1, drained),
  });
}
