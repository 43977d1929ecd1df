import type { References } from '../groupReferences.ts';

export interface DiscoveryFinding {
  /** `namespace/name` of the Service. */
  readonly service: string;
  readonly reason: string;
  readonly message: string;
}

/** Result of a discovery's last scan at its replica. */
export interface DiscoveryReport {
  readonly services: number;
  readonly clusters: number;
  /** Namespaces that it may not look at, or whose Services cannot be read. */
  readonly references: References;
  readonly conflicts: readonly DiscoveryFinding[];
  /** Services that become no clusters. */
  readonly refusals: readonly DiscoveryFinding[];
  /** Services that are gone with most others, and whose clusters stay until that is confirmed. */
  readonly held: number;
  /** Reason that clusters could not be written, or null. */
  readonly failure: string | null;
}

export interface DiscoveryReports {
  /** Null: it has not been looked at yet. @param uid of the discovery */
  report(uid: string): DiscoveryReport | null;
}
