import type { HealthVerdict } from '../../routing/routingTable.ts';
import type { CheckResult } from './healthCheck.ts';

/** Consecutive results, for the thresholds. */
export interface Streak {
  readonly good: number;
  readonly bad: number;
}

export const noStreak: Streak = { good: 0, bad: 0 };

export interface CheckTime {
  /** Wall clock of its end, in milliseconds. */
  readonly checkedAt: number;
  /** Monotonic time of its start, in milliseconds: its counts include earlier queries. */
  readonly askedAt: number;
}

/**
 * The verdict after a check. PENDING counts immediately, as a starting cluster must not get queries; the other two
 * after as many consecutive results as the threshold. Inconclusive results only change the reason. Counts stay while
 * failed checks wait for their threshold.
 */
export function nextVerdict(
  before: HealthVerdict,
  streak: Streak,
  result: CheckResult,
  thresholds: { readonly failureThreshold: number; readonly successThreshold: number },
  { checkedAt, askedAt }: CheckTime,
): { readonly verdict: HealthVerdict; readonly streak: Streak } {
  const { health } = result;
  if (health === 'inconclusive') {
    const reason = `${result.reason}; the last verdict stays`;
    return { verdict: { ...before, reason, checkedAt }, streak };
  }
  const next: Streak =
    health === 'HEALTHY'
      ? { good: streak.good + 1, bad: 0 }
      : health === 'UNHEALTHY'
        ? { good: 0, bad: streak.bad + 1 }
        : noStreak;
  const reached =
    health === 'PENDING' ||
    (health === 'HEALTHY' ? next.good >= thresholds.successThreshold : next.bad >= thresholds.failureThreshold);
  const waits =
    health === 'HEALTHY'
      ? `${next.good} of ${thresholds.successThreshold} good checks`
      : `${next.bad} of ${thresholds.failureThreshold} failed checks`;
  const reason = reached || before.status === health ? result.reason : `${result.reason} (${waits})`;
  if (!reached && before.status === 'HEALTHY') return { streak: next, verdict: { ...before, reason, checkedAt } };
  return {
    streak: next,
    verdict: {
      status: reached ? health : before.status,
      reason,
      checkedAt,
      queued: result.queued ?? null,
      running: result.running ?? null,
      workers: result.workers ?? null,
      queuedByUser: result.queuedByUser ?? null,
      countsAsOf: result.queued === undefined && result.running === undefined ? null : askedAt,
    },
  };
}
