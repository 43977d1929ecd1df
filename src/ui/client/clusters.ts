import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { call } from './call.ts';
import { useLive } from './live.ts';
import { SLOW_MS } from './queryClient.ts';
import type { ClusterDetails, ClusterState, Drain } from './types.ts';

export const CLUSTERS = ['clusters'];

/** All clusters, kept up to date: external changes show within two seconds, counts of queries within twenty. */
export function useClusters() {
  return useQuery({
    queryKey: CLUSTERS,
    queryFn: ({ signal }) => call<readonly ClusterState[]>('/api/clusters', { method: 'GET', signal }),
    refetchInterval: Math.min(useLive('clusters', CLUSTERS), SLOW_MS),
  });
}

export function clusterQuery(name: string) {
  return queryOptions({
    queryKey: [...CLUSTERS, name],
    queryFn: ({ signal }) =>
      call<ClusterDetails>(`/api/clusters/${encodeURIComponent(name)}`, { method: 'GET', signal }),
  });
}

/** One cluster with all details, kept up to date. */
export function useCluster(name: string) {
  const query = clusterQuery(name);
  return useQuery({ ...query, refetchInterval: Math.min(useLive('clusters', query.queryKey), SLOW_MS) });
}

/** Polling interval of a recently deactivated cluster, until all replicas know. */
const SETTLING_MS = 5_000;
/** Polling interval of a drained cluster: no new queries arrive while it is inactive. */
const DRAINED_MS = 60_000;
/** Above this number of clusters, the progress of others is polled less often. */
const MAX_BESIDE = 50;

export type Beside = 'none' | 'its group' | 'all';

/** Remaining queries of a cluster; for the roles API and ADMIN. */
export function drainQuery(name: string) {
  return queryOptions({
    queryKey: [...CLUSTERS, name, 'drain'],
    queryFn: ({ signal }) => call<Drain>(`/api/clusters/${encodeURIComponent(name)}/drain`, { method: 'GET', signal }),
  });
}

/**
 * Remaining queries of an inactive cluster, kept up to date. The total rate of calls is that of one cluster.
 * @param mayAsk true if the user has the role
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

/** True if the health check counts queries and ran after the cluster was deactivated. */
export function isCheckedSinceOff({ reported }: Drain, override: ClusterState['override']): boolean {
  const offSince = override?.at == null ? Number.NEGATIVE_INFINITY : Date.parse(override.at);
  return reported === null || Date.parse(reported.checkedAt) > offSince;
}
