import type { GroupDetails, GroupState } from '../../client/types.ts';

interface GroupSpec {
  readonly strategy?: string;
  readonly affinity?: { readonly by?: string };
  readonly maxRunningQueries?: number;
  readonly fallbacks?: readonly string[];
  readonly fallbackWhen?: 'unavailable' | 'full';
  readonly bestEffort?: boolean;
  readonly queue?: {
    readonly maxQueued?: number;
    readonly maxWait?: string;
    readonly fairBy?: string;
    readonly whenUnavailable?: 'refuse' | 'wait';
  };
}

/** A count; a dash if unknown. */
export function counted(count: number | null): string {
  return count === null ? '–' : String(count);
}

/** A count with its limit: `3 of 10`, `3`, or `– of 10`. */
export function ofLimit(count: number | null, limit: number | undefined): string {
  return limit === undefined ? counted(count) : `${counted(count)} of ${limit}`;
}

/** Declared fields of a group; empty without a resource. */
export function specOf({ spec }: Pick<GroupState, 'spec'>): GroupSpec {
  return (spec ?? {}) as GroupSpec;
}

/** Capacity, limits and queue of a group, as names and texts. */
export function groupFacts(group: GroupDetails): readonly (readonly [name: string, value: string | undefined])[] {
  const { clusters, running, waiting, refused, isDefault } = group;
  const { strategy, affinity, maxRunningQueries, fallbacks, fallbackWhen, bestEffort, queue = {} } = specOf(group);
  const takers = clusters.filter(({ takesNewQueries }) => takesNewQueries);
  return [
    ['Takes new queries', `${takers.length} of ${clusters.length} ${clusters.length === 1 ? 'backend' : 'backends'}`],
    ['Running', ofLimit(running, maxRunningQueries)],
    ['Room of its backends', capacityText(takers.map((cluster) => cluster.maxRunningQueries))],
    ['Waiting', ofLimit(waiting, queue.maxQueued)],
    ['Refused so far by its limit', refused === null ? '–' : refused.toLocaleString('en')],
    ['Longest wait', queue.maxWait ?? '10m, the default'],
    ['Turns by', queue.fairBy ?? 'user, the default'],
    ['Strategy', strategy === undefined || affinity?.by === undefined ? strategy : `${strategy} by ${affinity.by}`],
    ['Best effort', bestEffort === true ? 'an unhealthy backend is tried rather than none' : undefined],
    [
      'Fallbacks serve',
      fallbacks !== undefined && fallbackWhen === 'full' ? 'also while none of its backends has room' : undefined,
    ],
    ['Default group', isDefault ? 'queries that nothing else decides on go here' : undefined],
  ];
}

/** Text for the total number of concurrent queries of backends. @param limits per backend; null: unlimited */
function capacityText(limits: readonly (number | null)[]): string {
  if (limits.length === 0) return 'none';
  const limited = limits.filter((limit) => limit !== null);
  if (limited.length < limits.length) return 'no limit of the gateway';
  return limited.reduce((sum, limit) => sum + limit, 0).toLocaleString('en');
}
