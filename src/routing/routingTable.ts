import type { ClusterTlsSpec, HealthCheck } from '../kinds/engineCluster/spec.ts';
import type { ClusterHealth } from '../model/registryCluster.ts';
import type { RuleSet } from '../rules/decision.ts';
import { type AdmissionPolicy, noPolicy } from './admissionPolicy.ts';

export interface HealthVerdict {
  readonly status: ClusterHealth;
  /** Sentence for users, e.g. `GET http://a:8080/v1/info: connection refused`. */
  readonly reason: string;
  /** Wall clock of the last check in milliseconds; null before the first. */
  readonly checkedAt: number | null;
  /** Counts of the monitor; null if its kind has none. */
  readonly queued: number | null;
  readonly running: number | null;
  readonly workers: number | null;
  /** Queued queries by user, if the monitor knows them. */
  readonly queuedByUser: ReadonlyMap<string, number> | null;
  /** Monotonic time in milliseconds of the request for the counts, or null. */
  readonly countsAsOf: number | null;
  /** Version of the engine, and the id of its coordinator, as it reported them last. */
  readonly version?: string | undefined;
  readonly coordinatorId?: string | undefined;
  /**
   * Set after real requests failed: it receives no new queries, or a share of them on trial (docs/health.md#ejection).
   */
  readonly ejection?: 'ejected' | 'trial' | null;
  /** Wall clock of the first of several ejections in milliseconds, or null. */
  readonly flappingSince?: number | null;
}

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

/** Certificates that the TLS settings of a cluster refer to, in PEM. Never shown. */
export interface ClusterTlsMaterial {
  readonly ca?: string | undefined;
  /** Certificate that the gateway presents, with its key. */
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
}

export interface RoutableCluster {
  readonly name: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  readonly externalUrl: string;
  /** True if the resource states `externalUrl`, even if it equals `proxyTo`. */
  readonly hasExternalUrl?: true;
  readonly routingGroup: string;
  /** Effective value: `spec.active` or an override. */
  readonly active: boolean;
  readonly weight: number;
  /** Maximum number of concurrent queries; absent for no limit. */
  readonly maxRunningQueries?: number | undefined;
  /** True if it gets no queries by ordinary routing (docs/resources.md#clusters-for-rollouts). */
  readonly rolloutOnly?: boolean;
  readonly healthCheck: HealthCheck | null;
  /** Verification of its certificate; null: as configured. */
  readonly tls: ClusterTlsSpec | null;
  readonly tlsMaterial?: ClusterTlsMaterial | undefined;
  /** `resource`: has a resource; `row`: a row of Trino Gateway (unmanaged). */
  readonly origin: 'resource' | 'row';
  /** uid of its resource; absent without a resource. */
  readonly uid?: string | undefined;
}

/** A share of the queries of a cluster that another cluster of its group gets (docs/rollouts.md#the-split). */
export interface Split {
  /** Uid of the rollout. */
  readonly rollout: string;
  readonly routingGroup: string;
  readonly stable: string;
  readonly candidate: string;
  /** Percent of the users. */
  readonly weight: number;
}

/** Table inputs from a source of clusters and rules. */
export interface RoutingInputs {
  readonly clusters: readonly RoutableCluster[];
  /** Null: no rules, the header decides. */
  readonly rules: RuleSet | null;
  readonly admission: AdmissionPolicy;
  /** One for each routing group at most. */
  readonly splits: readonly Split[];
}

export interface ClusterEntry extends RoutableCluster {
  readonly health: HealthVerdict;
  /** Wall clock of the last HEALTHY check in milliseconds; absent if there was none since its registration. */
  readonly lastHealthyAt?: number | undefined;
}

/** All data of a decision, immutable; replaced as a whole. */
export interface RoutingTable {
  readonly version: number;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** Clusters by routing group, sorted by registry name. */
  readonly groups: ReadonlyMap<string, readonly ClusterEntry[]>;
  readonly rules: RuleSet | null;
  readonly admission: AdmissionPolicy;
  /** Splits by routing group. */
  readonly splits: ReadonlyMap<string, Split>;
}

export const emptyTable: RoutingTable = {
  version: 0,
  clusters: new Map(),
  groups: new Map(),
  rules: null,
  admission: noPolicy,
  splits: new Map(),
};

interface AvailabilityState {
  readonly active: boolean;
  readonly health: Pick<HealthVerdict, 'status'>;
  readonly rolloutOnly?: boolean | undefined;
}

/** True if a cluster is active and HEALTHY (docs/health.md), regardless of limits. */
export function isAvailable({ active, health }: AvailabilityState): boolean {
  return active && health.status === 'HEALTHY';
}

/** True if ordinary routing may send new queries to a cluster, regardless of limits. */
export function takesNewQueries(cluster: AvailabilityState): boolean {
  return isAvailable(cluster) && cluster.rolloutOnly !== true;
}

/**
 * True if two names mean the same engine: clusters may be registered with one URL, and its responses do not identify
 * the chosen one.
 */
export function isSameEngine(table: RoutingTable, one: string, other: string): boolean {
  if (one === other) return true;
  const cluster = table.clusters.get(one);
  return cluster !== undefined && cluster.proxyTo === table.clusters.get(other)?.proxyTo;
}

/** Called after a replacement, with the new table and the previous one. Must not throw. */
export type TableListener = (table: RoutingTable, before: RoutingTable) => void;

interface LastVerdict {
  readonly proxyTo: string;
  readonly health: HealthVerdict;
  readonly lastHealthyAt: number | undefined;
}

/**
 * Holds the current routing table. Readers take `current` once per request and keep it; writers replace it as a whole
 * (docs/architecture.md#the-way-of-the-data).
 */
export class RoutingTableHolder {
  #inputs: RoutingInputs = { clusters: [], rules: null, admission: noPolicy, splits: [] };
  readonly #verdicts = new Map<string, LastVerdict>();
  readonly #listeners = new Set<TableListener>();
  /** Replaced as a whole by `setInputs` and `setHealth`; others only read it. */
  current: RoutingTable = emptyTable;

  /**
   * Replaces clusters, rules or limits. Verdicts of clusters with unchanged name and address stay; others are reset.
   */
  setInputs(inputs: Partial<RoutingInputs>): void {
    this.#inputs = { ...this.#inputs, ...inputs };
    const addresses = new Map(this.#inputs.clusters.map(({ name, proxyTo }) => [name, proxyTo]));
    for (const [name, entry] of this.#verdicts) {
      if (addresses.get(name) !== entry.proxyTo) this.#verdicts.delete(name);
    }
    this.#replace();
  }

  /**
   * Sets the result of a check. Ignored if the cluster was removed or has another address by now, so that a late result
   * is never used for a changed cluster.
   */
  setHealth(name: string, proxyTo: string, verdict: HealthVerdict): void {
    const cluster = this.current.clusters.get(name);
    if (cluster === undefined || cluster.proxyTo !== proxyTo) return;
    const lastHealthyAt =
      verdict.status === 'HEALTHY' ? (verdict.checkedAt ?? cluster.lastHealthyAt) : cluster.lastHealthyAt;
    this.#verdicts.set(name, { proxyTo, health: verdict, lastHealthyAt });
    // Only this entry is replaced: checks of hundreds of clusters replace the table many times a second.
    const entry: ClusterEntry = { ...cluster, health: verdict, lastHealthyAt };
    const { routingGroup } = cluster;
    const members = this.current.groups.get(routingGroup) ?? [];
    this.#publish(
      new Map(this.current.clusters).set(name, entry),
      new Map(this.current.groups).set(
        routingGroup,
        members.map((member) => (member === cluster ? entry : member)),
      ),
    );
  }

  onChange(listener: TableListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #replace(): void {
    const entries = this.#inputs.clusters
      .map((cluster) => this.#entry(cluster))
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    const groups = new Map<string, ClusterEntry[]>();
    for (const entry of entries) {
      const members = groups.get(entry.routingGroup);
      if (members === undefined) groups.set(entry.routingGroup, [entry]);
      else members.push(entry);
    }
    this.#publish(new Map(entries.map((entry) => [entry.name, entry])), groups);
  }

  #publish(clusters: RoutingTable['clusters'], groups: RoutingTable['groups']): void {
    const before = this.current;
    const { rules, admission } = this.#inputs;
    const splits = new Map(this.#inputs.splits.map((split) => [split.routingGroup, split]));
    this.current = { version: before.version + 1, clusters, groups, rules, admission, splits };
    for (const listener of this.#listeners) listener(this.current, before);
  }

  #entry(cluster: RoutableCluster): ClusterEntry {
    const last = this.#verdicts.get(cluster.name);
    return { ...cluster, health: last?.health ?? neverChecked, lastHealthyAt: last?.lastHealthyAt };
  }
}
