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

/** Findings that a condition names. */
const LISTED = 5;

/** `a/x (…), b/y (…)`: the first of them. */
function findingsText(findings: readonly DiscoveryFinding[]): string {
  const listed = findings.slice(0, LISTED).map(({ service, message }) => `${service}: ${message}`);
  const more = findings.length - listed.length;
  return `${listed.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}

/** Condition `Discovered`, without its generation: whether every Service that matches is a cluster. */
export function discoveredState(report: DiscoveryReport): References {
  const { services, clusters, conflicts, refusals, held, failure } = report;
  const count = `${services} Service${services === 1 ? '' : 's'}, ${clusters} cluster${clusters === 1 ? '' : 's'}`;
  if (failure !== null) return { status: 'False', reason: 'WriteFailed', message: `${count}; ${failure}` };
  if (held > 0) {
    const message = `${count}; ${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return { status: 'False', reason: 'DeletionsHeld', message };
  }
  if (conflicts.length > 0) {
    const message = `${count}; names that are not this discovery's: ${findingsText(conflicts)}`;
    return { status: 'False', reason: 'NameConflict', message };
  }
  if (refusals.length > 0) {
    const message = `${count}; Services that become no clusters: ${findingsText(refusals)}`;
    return { status: 'False', reason: refusals[0]?.reason ?? 'Refused', message };
  }
  const isComplete = clusters === services;
  if (!isComplete) return { status: 'Unknown', reason: 'Pending', message: `${count}; clusters are being written` };
  return { status: 'True', reason: 'Discovered', message: count };
}
