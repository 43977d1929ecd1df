import type { References } from '../groupReferences.ts';

/** A Service, or a cluster, and what is wrong with it. */
export interface DiscoveryFinding {
  /** `namespace/name` of the Service. */
  readonly service: string;
  readonly reason: string;
  readonly message: string;
}

/** What became of a discovery, as its replica worked it out last. */
export interface DiscoveryReport {
  /** Services that match. */
  readonly services: number;
  /** Clusters that it owns and that are as they should be. */
  readonly clusters: number;
  /** Namespaces that it may not look at, or whose Services cannot be read. */
  readonly references: References;
  /** Names of clusters that somebody else has. */
  readonly conflicts: readonly DiscoveryFinding[];
  /** Services that become no clusters. */
  readonly refusals: readonly DiscoveryFinding[];
  /** Services that are gone with most others, and whose clusters stay until that is confirmed. */
  readonly held: number;
  /** Why clusters could not be written; null: they could. */
  readonly failure: string | null;
}

/** What became of discoveries; answers from memory. */
export interface DiscoveryReports {
  /** Null: it has not been looked at yet. @param uid of the discovery */
  report(uid: string): DiscoveryReport | null;
}
