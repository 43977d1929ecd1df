/** Which routing groups and clusters the rules of a namespace may route to. */
export interface RouteRights {
  /** Another text whenever an answer may be another one. */
  readonly version: string;
  /** Why rules of a namespace may not route to a group, with the fix; null when they may. */
  groupRefusal(namespace: string, group: string): string | null;
  /** Why they may not route to a cluster, by registry name; null when they may, or there is no such cluster. */
  clusterRefusal(namespace: string, cluster: string): string | null;
}
