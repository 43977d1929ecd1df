import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { call } from './call.ts';
import { useLive } from './live.ts';
import { SLOW_MS } from './queryClient.ts';
import type { ClusterDetails, ClusterState, Drain } from './types.ts';

/** Key of the clusters among the queries. */
export const CLUSTERS = ['clusters'];

/** All clusters, kept up to date: what changes elsewhere shows within two seconds, counts of queries every twenty. */
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

/** Between two looks at a cluster that was switched off only seconds ago, until all replicas know. */
const SETTLING_MS = 5_000;
/** Between two looks at one that runs nothing any more: as long as it is off, nothing comes. */
const DRAINED_MS = 60_000;
/** Clusters whose progress decides how often others are looked at. */
const MAX_BESIDE = 50;

/** Which clusters a page shows beside one. */
export type Beside = 'none' | 'its group' | 'all';

/** What a cluster still runs; the roles API and ADMIN may ask. */
export function drainQuery(name: string) {
  return queryOptions({
    queryKey: [...CLUSTERS, name, 'drain'],
    queryFn: ({ signal }) => call<Drain>(`/api/clusters/${encodeURIComponent(name)}/drain`, { method: 'GET', signal }),
  });
}

/**
 * What a cluster that is switched off still runs, kept up to date: all that a page shows make as many calls as one.
 * @param mayAsk whether the user may
 */
export function useDrain({ name, routingGroup, override }: ClusterState, mayAsk: boolean, beside: Beside) {
  const client = useQueryClient();
  const isDone = (each: string) => client.getQueryData(drainQuery(each).queryKey)?.drained === true;
  const offBeside = (): readonly string[] => {
    if (beside === 'none') return [name];
    const all = client.getQueryData<readonly ClusterState[]>(CLUSTERS) ?? [];
    const shown = beside === 'all' ? all : all.filter((each) => each.routingGroup === routingGroup);
    return shown.filter(({ active }) => !active).map((each) => each.name);
  };
  return useQuery({
    ...drainQuery(name),
    enabled: mayAsk,
    refetchInterval: ({ state: { data } }) => {
      const off = offBeside();
      const done = off.slice(0, MAX_BESIDE).filter(isDone).length;
      if (data?.drained === true && isCheckedSinceOff(data, override)) return DRAINED_MS * Math.max(1, done);
      return (data?.settled === false ? SETTLING_MS : SLOW_MS) * Math.max(1, off.length - done);
    },
  });
}

/** Whether the health check, where it counts queries, was made after the cluster was switched off. */
export function isCheckedSinceOff({ reported }: Drain, override: ClusterState['override']): boolean {
  const offSince = override?.at == null ? Number.NEGATIVE_INFINITY : Date.parse(override.at);
  return reported === null || Date.parse(reported.checkedAt) > offSince;
}
