import type { ClusterState, ListedQuery, QueryOutcome, SearchRow } from '../../client/types.ts';

/** The fields of a cluster that identify the one on which a query ran. */
export type NamedUrl = Pick<ClusterState, 'name' | 'proxyTo'> & Partial<Pick<ClusterState, 'externalUrl'>>;

/** A query as the table shows it. */
export interface HistoryEntry {
  readonly queryId: string;
  readonly queryText: string;
  readonly user: string | null;
  readonly source: string | null;
  readonly routingGroup: string | null;
  /** Names of its cluster; empty where no cluster took it. */
  readonly cluster: string;
  /** The engine's own page of it; null where there is none. */
  readonly enginePage: string | null;
  /** Milliseconds since 1970. */
  readonly at: number;
  /** How it ended; null: it runs, or nobody saw its end. */
  readonly outcome: Pick<QueryOutcome, 'state' | 'errorName' | 'elapsedMillis'> | null;
}

/** A row of the search as the table shows it. */
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

/** A query of the list as the table shows it. */
export function entryOfListed(query: ListedQuery, clusters: readonly NamedUrl[]): HistoryEntry {
  const { queryId, queryText, user, source, routingGroup, cluster, created, outcome } = query;
  // A cluster that was chosen for what the gateway refused does not know it.
  const present = outcome?.state === 'REFUSED' ? undefined : clusters.find(({ name }) => name === cluster);
  const engine = present?.externalUrl ?? present?.proxyTo ?? null;
  return {
    ...{ queryId, queryText, user, source, routingGroup, outcome, at: Date.parse(created) },
    cluster: cluster ?? '',
    enginePage: engine === null ? null : engineLink({ queryId, backendUrl: engine }),
  };
}

/**
 * The cluster that a query ran on: the name that was stored with it. A row without one (of a gateway that ran before)
 * only has the URL, which several clusters may share: then all of them are named.
 */
export function clusterText(
  { cluster, backendUrl }: Pick<SearchRow, 'cluster' | 'backendUrl'>,
  clusters: readonly NamedUrl[],
): string {
  if (cluster !== undefined) return cluster;
  const names = clusters.filter(({ proxyTo }) => proxyTo === backendUrl).map(({ name }) => name);
  return names.length === 0 ? backendUrl : names.join(' or ');
}

/** The engine's own page of a query. */
export function engineLink({
  externalUrl,
  backendUrl,
  queryId,
}: Pick<SearchRow, 'externalUrl' | 'backendUrl' | 'queryId'>): string {
  return `${externalUrl ?? backendUrl}/ui/query.html?${encodeURIComponent(queryId)}`;
}
