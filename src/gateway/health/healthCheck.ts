import type { MonitorType } from '../../model/monitorType.ts';
import type { ClusterHealth } from '../../model/registryCluster.ts';

export interface CheckResult {
  /** `inconclusive`: the last verdict stays. */
  readonly health: ClusterHealth | 'inconclusive';
  /** Sentence for users, e.g. `GET http://a:8080/v1/info: connection refused`. Never contains credentials. */
  readonly reason: string;
  readonly queued?: number;
  readonly running?: number;
  readonly workers?: number;
  readonly queuedByUser?: ReadonlyMap<string, number>;
  readonly version?: string | undefined;
  readonly coordinatorId?: string | undefined;
}

/** User and password of checks, and their source. Never logged. */
export interface CheckCredentials {
  readonly username: string;
  readonly password: string;
  /** The setting to fix when the cluster rejects them, e.g. `backendState`. */
  readonly from: string;
}

export interface CheckTarget {
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  /** Path of the cluster's healthCheck; null: default of the kind. */
  readonly path: string | null;
}

export interface AnonymousCheck {
  readonly needsUser: false;
  /**
   * Checks a cluster once. Never rejects: a failure is a result.
   * @param signal aborted by the timeout, or when the cluster is removed
   */
  check(target: CheckTarget, signal: AbortSignal): Promise<CheckResult>;
}

export interface UserCheck {
  readonly needsUser: true;
  /** Time for one check in milliseconds, where it is another than `monitor.timeout` and the cluster has none of its own. */
  readonly timeout?: number;
  check(target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult>;
}

export type HealthCheckKind = AnonymousCheck | UserCheck;

/** All kinds (docs/health.md#types-of-checks). */
export type HealthCheckKinds = Readonly<Record<MonitorType, HealthCheckKind>>;
