/** Takes what real requests find out about the health of clusters, by registry name and address. */
export interface ClusterReports {
  /** A request could not connect. */
  connectionFailed(cluster: string, proxyTo: string, reason: string): void;
  /** A request on a statement path was answered 5xx or not at all; how many in a row by now. */
  serverFailed(cluster: string, proxyTo: string, reason: string, inARow: number): void;
}
