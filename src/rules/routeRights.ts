/** Which routing groups and clusters the rules of a namespace may route to. */
export interface RouteRights {
  /** Another text whenever an answer may be another one. */
  readonly version: string;
  /** Why rules of a namespace may not route to a group, with the fix; null when they may. */
  groupRefusal(namespace: string, group: string): string | null;
  /** Why they may not route to a cluster, by registry name; null when they may, or there is no such cluster. */
  clusterRefusal(namespace: string, cluster: string): string | null;
  /** Which queries deny rules of a namespace may refuse: all, those to some routing groups, or none. */
  deniable(namespace: string): 'all' | 'some' | 'none';
  /**
   * Why a deny rule of a namespace may not refuse a query; null when it may.
   * @param target where the query goes: a cluster, or else a group; neither: the default group
   */
  denyRefusal(
    namespace: string,
    target: { readonly cluster: string | null; readonly group: string | null },
  ): string | null;
}
