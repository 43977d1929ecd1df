import type { ClusterTlsSpec, HealthCheck } from '../kinds/engineCluster/spec.ts';
import type { ClusterHealth } from '../model/registryCluster.ts';
import type { RuleSet } from '../rules/decision.ts';
import { type AdmissionPolicy, noPolicy } from './admissionPolicy.ts';

/** Verdict of the last health check of a cluster. */
export interface HealthVerdict {
  readonly status: ClusterHealth;
  /** Sentence for people, e.g. `GET http://a:8080/v1/info: connection refused`. */
  readonly reason: string;
  /** Wall clock of the last check in milliseconds; null before the first. */
  readonly checkedAt: number | null;
  /** Counts as the monitor knows them; null where its kind gives none. */
  readonly queued: number | null;
  readonly running: number | null;
  readonly workers: number | null;
  /** Queued queries by user, where the monitor knows them. */
  readonly queuedByUser: ReadonlyMap<string, number> | null;
  /** Monotonic time in milliseconds at which the counts were requested; null where there are none. */
  readonly countsAsOf: number | null;
  /** Set after real requests failed: it takes no new queries, or takes a share of them on trial (docs/health.md#ejection). */
  readonly ejection?: 'ejected' | 'trial' | null;
  /** Wall clock of the first of several ejections in milliseconds; null where there are none. */
  readonly flappingSince?: number | null;
}

/** The verdict of a cluster that was never checked. */
export const neverChecked: HealthVerdict = {
  status: 'PENDING',
  reason: 'not checked yet',
  checkedAt: null,
  queued: null,
  running: null,
  workers: null,
  queuedByUser: null,
  countsAsOf: null,
};

/** A registered cluster as routing sees it. */
export interface RoutableCluster {
  /** Registry name. */
  readonly name: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  readonly externalUrl: string;
  /** True where `externalUrl` is stated by the resource, also where it is the same as `proxyTo`. */
  readonly hasExternalUrl?: true;
  readonly routingGroup: string;
  /** Effective value: `spec.active`, unless an override says otherwise. */
  readonly active: boolean;
  readonly weight: number;
  /** Queries that may run on it at a time; left out for no limit. */
  readonly maxRunningQueries?: number | undefined;
  readonly healthCheck: HealthCheck | null;
  /** How its certificate is verified; null as the configuration says. */
  readonly tls: ClusterTlsSpec | null;
  /** `resource`: has a resource; `row`: a row of a gateway that ran before (unmanaged). */
  readonly origin: 'resource' | 'row';
  /** uid of its resource; left out where it has none. */
  readonly uid?: string | undefined;
}

/** What a source of clusters and rules gives to the table. */
export interface RoutingInputs {
  readonly clusters: readonly RoutableCluster[];
  /** Null: no rules at all, the header decides. */
  readonly rules: RuleSet | null;
  /** Limits and queues. */
  readonly admission: AdmissionPolicy;
}

/** A cluster of the table with its verdict. */
export interface ClusterEntry extends RoutableCluster {
  readonly health: HealthVerdict;
  /** Wall clock of the last check that found it HEALTHY, milliseconds; left out where none did since it is registered. */
  readonly lastHealthyAt?: number | undefined;
}

/** Everything a decision reads, immutable; replaced whole. */
export interface RoutingTable {
  /** Grows with each replacement. */
  readonly version: number;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** Clusters by routing group, in order of registry names. */
  readonly groups: ReadonlyMap<string, readonly ClusterEntry[]>;
  readonly rules: RuleSet | null;
  readonly admission: AdmissionPolicy;
}

/** The table before anything was read. */
export const emptyTable: RoutingTable = {
  version: 0,
  clusters: new Map(),
  groups: new Map(),
  rules: null,
  admission: noPolicy,
};

/** True if a cluster takes new queries: it is active and HEALTHY (docs/health.md). Limits are another matter. */
export function takesNewQueries({
  active,
  health,
}: {
  readonly active: boolean;
  readonly health: Pick<HealthVerdict, 'status'>;
}): boolean {
  return active && health.status === 'HEALTHY';
}

/**
 * Whether two names mean the same engine: clusters may be registered with one URL, and what answers there says nothing of
 * which of them was chosen.
 */
export function isSameEngine(table: RoutingTable, one: string, other: string): boolean {
  if (one === other) return true;
  const cluster = table.clusters.get(one);
  return cluster !== undefined && cluster.proxyTo === table.clusters.get(other)?.proxyTo;
}
