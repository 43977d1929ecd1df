import type { ClusterState, ListedQuery, OutcomeView, SearchRow } from '../../client/types.ts';

/** Fields of a cluster that identify where a query ran. */
export type NamedUrl = Pick<ClusterState, 'name' | 'proxyTo'> & Partial<Pick<ClusterState, 'externalUrl'>>;

export interface HistoryEntry {
  readonly queryId: string;
  readonly queryText: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly routingGroup: string | null;
  /** Names of its cluster; empty if no cluster received it. */
  readonly cluster: string;
  /** Link to the engine's page of it, or null. */
  readonly enginePage: string | null;
  readonly at: number;
  /** Null: it runs, or its end was not observed. */
  readonly outcome: Pick<OutcomeView, 'state' | 'errorName' | 'elapsedMillis'> | null;
}

export function entryOfRow(row: SearchRow, clusters: readonly NamedUrl[]): HistoryEntry {
  const { queryId, queryText, user = null, source = null, routingGroup = null, captureTime } = row;
  const { state, errorName = null, elapsedMillis = null } = row;
  return {
    ...{ queryId, queryText, user, source, routingGroup, at: captureTime },
    cluster: clusterText(row, clusters),
    enginePage: engineLink(row),
    outcome: state === undefined ? null : { state, errorName, elapsedMillis },
  };
}

export function entryOfListed(query: ListedQuery, clusters: readonly NamedUrl[]): HistoryEntry {
  const { queryId, queryText, user, source, routingGroup, cluster, created, outcome } = query;
  // The chosen cluster of a rejected query does not know it.
  const present = outcome?.state === 'REFUSED' ? undefined : clusters.find(({ name }) => name === cluster);
  const engine = present?.externalUrl ?? present?.proxyTo ?? null;
  return {
    ...{ queryId, queryText, user, source, routingGroup, outcome, at: Date.parse(created) },
    cluster: cluster ?? '',
    enginePage: engine === null ? null : engineLink({ queryId, backendUrl: engine }),
  };
}

/**
 * The cluster that a query ran on: the stored name. A row without one (of Trino Gateway) only has the URL, which
 * several clusters may share: then all of them are named.
 */
export function clusterText(
  { cluster, backendUrl }: Pick<SearchRow, 'cluster' | 'backendUrl'>,
  clusters: readonly NamedUrl[],
): string {
  if (cluster !== undefined) return cluster;
  const names = clusters.filter(({ proxyTo }) => proxyTo === backendUrl).map(({ name }) => name);
  return names.length === 0 ? backendUrl : names.join(' or ');
}

export function engineLink({
  externalUrl,
  backendUrl,
  queryId,
}: Pick<SearchRow, 'externalUrl' | 'backendUrl' | 'queryId'>): string {
  return `${externalUrl ?? backendUrl}/ui/query.html?${encodeURIComponent(queryId)}`;
}
