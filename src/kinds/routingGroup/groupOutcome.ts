import { durationMs } from '../../model/durationField.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { DEFAULT_QUEUE, type GroupPolicy } from '../../routing/admissionPolicy.ts';
import { requestKeyOf } from '../../routing/requestKey.ts';
import type { Acceptance, GroupRefusal } from '../acceptance.ts';
import { groupsText, type References } from '../groupReferences.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { ROUTING_GROUP, type RoutingGroupSpec } from './spec.ts';

export interface GroupOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** The active policy: of this version or, while it is not accepted or paused, of the last good one; null: none. */
  readonly policy: GroupPolicy | null;
  readonly references: References;
  readonly clusters: number;
}

export function isGroupOutcome(outcome: ResourceOutcome): outcome is GroupOutcome {
  return outcome.key.kind === ROUTING_GROUP;
}

export function groupPolicy(name: string, spec: RoutingGroupSpec): GroupPolicy {
  const { maxQueued, maxWait, fairBy, hold, whenUnavailable } = spec.queue ?? {};
  return {
    name,
    strategy: spec.strategy ?? null,
    affinity: requestKeyOf(spec.affinity?.by ?? 'user'),
    fallbacks: spec.fallbacks ?? [],
    fallbackWhen: spec.fallbackWhen ?? 'unavailable',
    bestEffort: spec.bestEffort ?? false,
    maxRunning: spec.maxRunningQueries ?? null,
    queue: {
      maxQueued: maxQueued ?? DEFAULT_QUEUE.maxQueued,
      maxWaitMs: maxWait === undefined ? DEFAULT_QUEUE.maxWaitMs : durationMs(maxWait),
      fairBy: fairBy ?? DEFAULT_QUEUE.fairBy,
      holdMs: hold === undefined ? Math.min(DEFAULT_QUEUE.holdMs, longestHoldMs(maxWait)) : durationMs(hold),
      whenUnavailable: whenUnavailable ?? DEFAULT_QUEUE.whenUnavailable,
    },
  };
}

/** The default is not beyond a short `maxWait`. */
function longestHoldMs(maxWait: string | undefined): number {
  return maxWait === undefined ? Number.POSITIVE_INFINITY : durationMs(maxWait);
}

/**
 * Returns the reason that a namespace may not declare a group's policy (docs/resources.md#several-teams); null if it
 * may.
 */
export function groupRefusal(
  bindings: GroupBindings,
  namespace: string,
  { name, fallbacks }: Pick<GroupPolicy, 'name' | 'fallbacks'>,
): GroupRefusal | null {
  const join = bindings.joinRefusal(namespace, name);
  if (join !== null) return { field: 'name', message: join };
  for (const [index, fallback] of fallbacks.entries()) {
    const route = bindings.routeRefusal(namespace, fallback);
    if (route !== null) return { field: `fallbacks[${index}]`, message: route };
  }
  return null;
}

/** True if the group and its fallbacks have clusters. @param counts clusters by routing group */
export function groupReferences(
  { name, fallbacks }: Pick<GroupPolicy, 'name' | 'fallbacks'>,
  counts: ReadonlyMap<string, number>,
): References {
  const empty = fallbacks.filter((fallback) => !counts.has(fallback));
  if (empty.length > 0) {
    const message = `no cluster belongs to ${groupsText(empty)} among the fallbacks; correct the name, or declare a cluster of it`;
    return { status: 'False', reason: 'GroupNotFound', message };
  }
  if (!counts.has(name) && fallbacks.length === 0) {
    const message = `no cluster belongs to the routing group ${name}; declare one with spec.routingGroup: ${name}`;
    return { status: 'False', reason: 'NoClusters', message };
  }
  return { status: 'True', reason: 'ResolvedRefs', message: 'the group or its fallbacks have clusters' };
}
