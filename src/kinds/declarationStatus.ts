import { conditionsAt } from '../model/condition.ts';
import { type Acceptance, ready, stalled } from './acceptance.ts';
import type { References } from './groupReferences.ts';
import type { ResourceOutcome } from './outcome.ts';
import { observedGeneration, pausedCondition } from './paused.ts';
import type { StatusDraft, Stored } from './status.ts';

/** What a resource means that declares limits and names routing groups. */
export interface Declaration extends ResourceOutcome {
  readonly acceptance: Acceptance;
  readonly references: References;
}

/** The status of such a resource. Pure. @param fields of the status, beside its conditions */
export function declarationStatus(outcome: Declaration, stored: Stored, fields: StatusDraft['fields']): StatusDraft {
  const generation = observedGeneration(outcome);
  const condition = conditionsAt(generation);
  const { acceptance, references, paused } = outcome;
  return {
    observedGeneration: generation,
    fields,
    conditions: [
      condition('Accepted', acceptance.status, acceptance.reason, acceptance.message),
      condition('ResolvedRefs', references.status, references.reason, references.message),
      condition('Ready', ...ready(acceptance, stored)),
      ...stalled(acceptance, condition),
      ...(paused ? [pausedCondition(outcome)] : []),
    ],
  };
}
