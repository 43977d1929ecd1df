import { conditionsAt } from '../model/condition.ts';
import type { AdmissionCount } from '../routing/admissionCounts.ts';
import { type Acceptance, ready, stalled } from './acceptance.ts';
import type { References } from './groupReferences.ts';
import type { ResourceOutcome } from './outcome.ts';
import { observedGeneration, pausedCondition } from './paused.ts';
import type { StatusDraft, Stored } from './status.ts';

/** Outcome of a resource that declares limits and names routing groups. */
export interface Declaration extends ResourceOutcome {
  readonly acceptance: Acceptance;
  readonly references: References;
}

/** The status of such a resource. Pure. @param fields of the status, in addition to its conditions */
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

/** Counts as fields of a status: without those that are not known. */
export function usageFields(count: AdmissionCount | null): Readonly<Record<string, number>> {
  if (count === null) return {};
  const { running, waiting, refused } = count;
  return { ...(running === null ? null : { running }), waiting, refused };
}

/** Fields of a status that show how much of a limit is used, as the last count of all replicas found it. */
export const countProperties = {
  running: {
    type: 'integer',
    format: 'int64',
    minimum: 0,
    description: 'Queries that run and count against it, on all replicas.',
  },
  waiting: { type: 'integer', format: 'int64', minimum: 0, description: 'Submissions that wait for it.' },
  refused: {
    type: 'integer',
    format: 'int64',
    minimum: 0,
    description: 'Submissions that it refused, or would have refused where it only observes, since counting began.',
  },
};
