/** Takes what real requests find out about the health of clusters, by registry name and address. */
export interface ClusterReports {
  connectionFailed(cluster: string, proxyTo: string, reason: string): void;
  /** A request on a statement path got a response 5xx or none; how many in a row by now. */
  serverFailed(cluster: string, proxyTo: string, reason: string, inARow: number): void;
}
