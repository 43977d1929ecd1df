import { durationMs } from '../../model/durationField.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import type { LimitPolicy } from '../../routing/admissionPolicy.ts';
import type { Acceptance, GroupRefusal } from '../acceptance.ts';
import { groupsText, type References } from '../groupReferences.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { limitMatch, namedGroups } from './limitMatch.ts';
import { DEFAULT_PERIOD, QUERY_LIMIT, type QueryLimitSpec } from './spec.ts';

export interface LimitOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** The active policy: of this version or, while it is not accepted or paused, of the last good one; null: none. */
  readonly policy: LimitPolicy | null;
  readonly references: References;
}

export function isLimitOutcome(outcome: ResourceOutcome): outcome is LimitOutcome {
  return outcome.key.kind === QUERY_LIMIT;
}

export function limitPolicy(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  spec: QueryLimitSpec,
  bindings: GroupBindings,
): LimitPolicy {
  const { rate } = spec;
  return {
    key: `${namespace}/${name}`,
    match: limitMatch(spec, bindings, namespace),
    per: spec.per,
    maxRunning: spec.maxRunning ?? null,
    maxQueued: spec.maxQueued ?? null,
    rate:
      rate === undefined
        ? null
        : {
            queries: rate.queries,
            periodMs: durationMs(rate.period ?? DEFAULT_PERIOD),
            burst: rate.burst ?? rate.queries,
          },
    weight: spec.weight ?? 1,
    mode: spec.mode ?? 'enforce',
    message: spec.message ?? null,
  };
}

/** Returns the reason that a namespace may not declare a limit (docs/resources.md#several-teams); null if it may. */
export function limitRefusal(bindings: GroupBindings, namespace: string, spec: QueryLimitSpec): GroupRefusal | null {
  for (const group of namedGroups(spec)) {
    const refusal = bindings.denyRefusal(namespace, group);
    if (refusal !== null) return { field: 'match.routingGroups', message: refusal };
  }
  if (bindings.deniable(namespace) !== 'none') return null;
  const message = `namespace ${namespace} may limit queries to no routing group; have it added to resources.groups["*"].deny, or to deny of a group, in the gateway's configuration`;
  return { field: null, message };
}

/** True if the routing groups that a limit names are there. @param served those that queries can be sent to */
export function limitReferences(groups: readonly string[], served: ReadonlySet<string>): References {
  const absent = groups.filter((group) => !served.has(group));
  if (absent.length > 0) {
    const message = `no cluster belongs to ${groupsText(absent)} of spec.match.routingGroups: nothing is limited there`;
    return { status: 'False', reason: 'GroupNotFound', message };
  }
  return groups.length === 0
    ? { status: 'True', reason: 'NoReferences', message: 'the limit names no routing group' }
    : { status: 'True', reason: 'ResolvedRefs', message: 'the routing groups that it names have clusters' };
}
