import type { MonitorType } from '../model/engineCluster.ts';
import type { ClusterHealth } from '../model/registryCluster.ts';
import type { HealthVerdict } from '../routing/routingTable.ts';

/** What one check of a cluster found. */
export interface CheckResult {
  /** `inconclusive`: nothing was learned, the last verdict stays. */
  readonly found: ClusterHealth | 'inconclusive';
  /** Sentence for people, e.g. `GET http://a:8080/v1/info: connection refused`. */
  readonly reason: string;
  readonly queued?: number;
  readonly running?: number;
  readonly workers?: number;
  readonly queuedByUser?: ReadonlyMap<string, number>;
}

/** The cluster that is checked. */
export interface CheckTarget {
  /** Registry name. */
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly baseUrl: string;
  /** Path of the cluster's own healthCheck; null for the kind's. */
  readonly path: string | null;
}

/** A kind of health check. */
export interface HealthCheckKind {
  /**
   * Checks a cluster once. Never rejects: what fails is a result.
   * @param signal aborted when the check's time is over, or the cluster is gone
   */
  check(target: CheckTarget, signal: AbortSignal): Promise<CheckResult>;
}

/** The kinds that there are; a kind that is absent leaves its clusters PENDING and says so. */
export type HealthCheckKinds = Readonly<Partial<Record<MonitorType, HealthCheckKind>>>;

/** Results in a row, for the thresholds. */
export interface Streak {
  readonly good: number;
  readonly bad: number;
}

/** No result yet. */
export const noStreak: Streak = { good: 0, bad: 0 };

/**
 * The verdict after a check at `now` (wall clock) whose question was asked at `askedAt` (monotonic). PENDING counts at once, as a starting cluster must get no query; the other two when as
 * many results in a row as the threshold say so. Inconclusive results change nothing but the reason.
 */
export function nextVerdict(
  before: HealthVerdict,
  streak: Streak,
  result: CheckResult,
  thresholds: { readonly failureThreshold: number; readonly successThreshold: number },
  now: number,
  askedAt: number,
): { readonly verdict: HealthVerdict; readonly streak: Streak } {
  const { found } = result;
  if (found === 'inconclusive') {
    const reason = `${result.reason}; the last verdict stays`;
    return { verdict: { ...before, reason, checkedAt: now }, streak };
  }
  const next: Streak =
    found === 'HEALTHY'
      ? { good: streak.good + 1, bad: 0 }
      : found === 'UNHEALTHY'
        ? { good: 0, bad: streak.bad + 1 }
        : noStreak;
  const reached =
    found === 'PENDING' ||
    (found === 'HEALTHY' ? next.good >= thresholds.successThreshold : next.bad >= thresholds.failureThreshold);
  const waits =
    found === 'HEALTHY'
      ? `${next.good} of ${thresholds.successThreshold} good checks`
      : `${next.bad} of ${thresholds.failureThreshold} failed checks`;
  return {
    streak: next,
    verdict: {
      status: reached ? found : before.status,
      reason: reached || before.status === found ? result.reason : `${result.reason} (${waits})`,
      checkedAt: now,
      queued: result.queued ?? null,
      running: result.running ?? null,
      workers: result.workers ?? null,
      queuedByUser: result.queuedByUser ?? null,
      countsAsOf: result.queued === undefined && result.running === undefined ? null : askedAt,
    },
  };
}
