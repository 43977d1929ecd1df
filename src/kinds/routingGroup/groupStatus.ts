import { conditionsAt } from '../../model/condition.ts';
import { ready, stalled } from '../acceptance.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { GroupOutcome } from './groupOutcome.ts';

/** The status of a routing group. Pure. */
export function groupStatus(
  outcome: GroupOutcome,
  { stored, counts }: Pick<StatusView, 'stored' | 'counts'>,
): StatusDraft {
  const generation = observedGeneration(outcome);
  const condition = conditionsAt(generation);
  const { acceptance, references, policy, registryName, clusters } = outcome;
  return {
    observedGeneration: generation,
    fields: { clusters, ...(policy === null ? null : counts.group(registryName)) },
    conditions: [
      condition('Accepted', acceptance.status, acceptance.reason, acceptance.message),
      condition('ResolvedRefs', references.status, references.reason, references.message),
      condition('Ready', ...ready(acceptance, stored)),
      ...stalled(acceptance, condition),
      ...(outcome.paused ? [pausedCondition(outcome)] : []),
    ],
  };
}
