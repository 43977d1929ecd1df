import type { FaultCounts, FaultMinute } from '../../../store/queryRates.ts';
import type { OverviewProblem } from '../../answers/overview.ts';
import { affected, timeText } from './problemList.ts';
import type { RuleTargetsIndex } from './ruleProblems.ts';

/** Queries that waited for a routing group at a time, on all replicas. */
export interface QueueSample {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly waiting: number;
}

/** A queue grows when so many more wait than at its lowest within the samples, and so many times as many. */
const GROWN_BY = 10;
const GROWN_TIMES = 1.2;
/** A queue that has come down to this part of its highest does not grow any more. */
const STILL = 0.9;

export interface GrownQueue {
  readonly group: string;
  readonly waiting: number;
  /** The fewest that waited within the samples. */
  readonly lowest: number;
  /** When they were so few last: since then it has grown. Milliseconds since 1970. */
  readonly since: number;
}

/**
 * Queues that grow: more queries wait than at the lowest of the samples, and the queue has not come down since. Pure.
 * @param queues samples of each routing group, oldest first
 */
export function grownQueues(queues: ReadonlyMap<string, readonly QueueSample[]>): GrownQueue[] {
  const grown: GrownQueue[] = [];
  for (const [group, samples] of queues) {
    const last = samples.at(-1);
    if (last === undefined) continue;
    const lowest = Math.min(...samples.map(({ waiting }) => waiting));
    const { at: since } = samples.findLast(({ waiting }) => waiting === lowest) ?? last;
    const highest = Math.max(...samples.filter(({ at }) => at >= since).map(({ waiting }) => waiting));
    const hasGrown = last.waiting >= lowest + GROWN_BY && last.waiting >= lowest * GROWN_TIMES;
    if (hasGrown && last.waiting >= highest * STILL) grown.push({ group, waiting: last.waiting, lowest, since });
  }
  return grown;
}

export function queueProblems(queues: readonly GrownQueue[], targets: RuleTargetsIndex): OverviewProblem[] {
  return queues.map(({ group, waiting, lowest, since }) => ({
    kind: 'QueueGrowing',
    severity: 'warning',
    object: { kind: 'queue', name: group },
    reason: `${waiting} queries wait, ${waiting - lowest} more than then`,
    since: timeText(since),
    ...affected([group], targets.ofGroup(group)),
  }));
}

/** Length of the recent time that faults are counted in, milliseconds. */
export const RECENT_MS = 5 * 60_000;
export const BEFORE_MS = 30 * 60_000;
/** Share of queries with faults from which it is a problem, where it is also this many times the share before. */
const FAULTY_SHARE = 0.05;
const RISE = 2;
/** Fewer faults than these say nothing. */
const MIN_FAULTS = 5;
const CRITICAL_SHARE = 0.5;

/** Clusters and groups whose error rate is up, most faults first. Pure. */
export function raisedFaults(counts: readonly FaultCounts[]): FaultCounts[] {
  return counts
    .filter(({ recent, before }) => {
      if (recent.faults < MIN_FAULTS || share(recent) < FAULTY_SHARE) return false;
      return before.ended === 0 || share(recent) >= RISE * share(before);
    })
    .sort((a, b) => b.recent.faults - a.recent.faults);
}

/**
 * Error rates that are up, of clusters, and of routing groups whose queries the gateway rejects. Pure. @param minutes
 * of these counts
 */
export function faultProblems(
  raised: readonly FaultCounts[],
  minutes: readonly FaultMinute[],
  targets: RuleTargetsIndex,
): OverviewProblem[] {
  return raised.map((counts) => {
    const { cluster, group, groups, recent, before } = counts;
    const own = minutesOf(counts, minutes);
    const error = mostFrequentError(own);
    const what = cluster === null ? 'were refused' : 'failed or were refused';
    const earlier = before.ended === 0 ? '' : `; ${percent(share(before))} in the half hour before`;
    const often = error === null ? '' : `, most often with ${error}`;
    return {
      kind: 'ErrorRate',
      severity: share(recent) >= CRITICAL_SHARE ? 'critical' : 'warning',
      object: cluster === null ? { kind: 'routingGroup', name: group ?? '' } : { kind: 'cluster', name: cluster },
      reason: `${recent.faults} of ${recent.ended} queries ${what} in the last 5 minutes (${percent(share(recent))}${earlier})${often}`,
      since: timeText(faultySince(own)),
      ...affected(
        groups,
        groups.flatMap((name) => targets.ofGroup(name)),
      ),
    };
  });
}

/** Minutes of a cluster or a routing group. What a cluster took is no fault of its routing group. */
function minutesOf({ cluster, group }: FaultCounts, minutes: readonly FaultMinute[]): readonly FaultMinute[] {
  if (cluster !== null) return minutes.filter((minute) => minute.cluster === cluster);
  return minutes
    .filter((minute) => group === null || minute.group === group)
    .map((minute) => (minute.cluster === null && minute.group === group ? minute : { ...minute, faults: 0 }));
}

function share({ ended, faults }: { readonly ended: number; readonly faults: number }): number {
  return ended === 0 ? 0 : faults / ended;
}

function percent(value: number): string {
  return `${value > 0 && value < 0.1 ? (value * 100).toFixed(1) : Math.round(value * 100)} %`;
}

function mostFrequentError(minutes: readonly FaultMinute[]): string | null {
  const counts = new Map<string, number>();
  for (const { errorName, faults } of minutes) {
    if (errorName !== null && faults > 0) counts.set(errorName, (counts.get(errorName) ?? 0) + faults);
  }
  return [...counts].sort(([nameA, a], [nameB, b]) => b - a || (nameA < nameB ? -1 : 1))[0]?.[0] ?? null;
}

/** Start of the first minute of the run of faulty minutes that continues; minutes without queries do not end it. */
function faultySince(minutes: readonly FaultMinute[]): number | null {
  const sums = new Map<number, { ended: number; faults: number }>();
  for (const { start, ended, faults } of minutes) {
    const sum = sums.get(start) ?? { ended: 0, faults: 0 };
    sums.set(start, { ended: sum.ended + ended, faults: sum.faults + faults });
  }
  let since: number | null = null;
  let hasBegun = false;
  for (const [start, sum] of [...sums].sort(([a], [b]) => b - a)) {
    const isFaulty = share(sum) >= FAULTY_SHARE;
    if (isFaulty) [since, hasBegun] = [start, true];
    else if (hasBegun) break;
  }
  return since;
}
