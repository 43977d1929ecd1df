import type { ClusterState, HistoryRow } from '../../client/types.ts';

/** The fields of a cluster that identify the one on which a query ran. */
export type NamedUrl = Pick<ClusterState, 'name' | 'proxyTo'>;

/**
 * The cluster that a query ran on: the name that was stored with it. A row without one (of a gateway that ran before)
 * only has the URL, which several clusters may share: then all of them are named.
 */
export function clusterText({ cluster, backendUrl }: HistoryRow, clusters: readonly NamedUrl[]): string {
  if (cluster !== undefined) return cluster;
  const names = clusters.filter(({ proxyTo }) => proxyTo === backendUrl).map(({ name }) => name);
  return names.length === 0 ? backendUrl : names.join(' or ');
}

/** The engine's own page of a query. */
export function engineLink({ externalUrl, backendUrl, queryId }: HistoryRow): string {
  return `${externalUrl ?? backendUrl}/ui/query.html?${encodeURIComponent(queryId)}`;
}
