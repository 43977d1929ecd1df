/** Rights of the rules of a namespace to routing groups and clusters. */
export interface RouteRights {
  /** Changes whenever a result may change. */
  readonly version: string;
  /** Returns the reason that rules of a namespace may not route to a group, with the fix; null if they may. */
  groupRefusal(namespace: string, group: string): string | null;
  /**
   * Returns the reason that they may not route to a cluster, by registry name; null if they may, or if the cluster does
   * not exist.
   */
  clusterRefusal(namespace: string, cluster: string): string | null;
  /** Queries that deny rules of a namespace may reject: all, queries to some routing groups, or none. */
  deniable(namespace: string): 'all' | 'some' | 'none';
  /**
   * Returns the reason that a deny rule of a namespace may not reject a query; null if it may.
   * @param target destination of the query: a cluster, or else a group; neither: the default group
   */
  denyRefusal(
    namespace: string,
    target: { readonly cluster: string | null; readonly group: string | null },
  ): string | null;
}
