import { conditionsAt } from '../../model/condition.ts';
import { ready, stalled } from '../acceptance.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { LimitOutcome } from './limitOutcome.ts';

/** The status of a query limit. Pure. */
export function limitStatus(
  outcome: LimitOutcome,
  { stored, counts }: Pick<StatusView, 'stored' | 'counts'>,
): StatusDraft {
  const generation = observedGeneration(outcome);
  const condition = conditionsAt(generation);
  const { acceptance, references, policy } = outcome;
  return {
    observedGeneration: generation,
    fields: { ...(policy === null ? null : counts.limit(policy.key)) },
    conditions: [
      condition('Accepted', acceptance.status, acceptance.reason, acceptance.message),
      condition('ResolvedRefs', references.status, references.reason, references.message),
      condition('Ready', ...ready(acceptance, stored)),
      ...stalled(acceptance, condition),
      ...(outcome.paused ? [pausedCondition(outcome)] : []),
    ],
  };
}
