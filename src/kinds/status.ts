import { type ConditionDraft, conditionsAt } from '../model/condition.ts';
import { PAUSED_ANNOTATION } from '../model/resource.ts';
import type { AdmissionCount, AdmissionCounts } from '../routing/admissionCounts.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { DataPlaneFindings } from './dataPlaneFindings.ts';
import { type Acceptance, conditionState, type ResourceOutcome, type State } from './outcome.ts';
import type { GroupTargets } from './resourceGroupConfiguration/groupTargets.ts';

export interface StatusDraft {
  readonly observedGeneration: number;
  readonly conditions: readonly ConditionDraft[];
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Stored {
  readonly stored: boolean;
  /** Reason; empty if stored. */
  readonly reason: string;
}

/** Content of a status in addition to the outcome of the resource. */
export interface StatusView {
  readonly stored: Stored;
  readonly table: RoutingTable;
  readonly findings: DataPlaneFindings;
  readonly counts: AdmissionCounts;
  readonly targets: GroupTargets;
}

/** The condition `Ready` of a resource that has no further conditions for it. */
export function ready(acceptance: Acceptance, stored: Stored): State {
  if (acceptance.status !== 'True') return acceptance;
  if (!stored.stored) return conditionState('False', 'NotStored', stored.reason);
  return conditionState('True', 'Ready', 'accepted, in the routing table and in the database');
}

const pausedMessage = `changes are not taken over until the annotation ${PAUSED_ANNOTATION} is removed`;

/**
 * The status of a resource: `Accepted`, the conditions of its kind, `Stalled` where only a change by a user helps, and `Paused`. Pure.
 * The generation of a paused resource stays what it was: a change that is not taken over is not to look as if it was (kstatus).
 * @param conditions by type, `Ready` among them; null: it is left out
 */
export function statusDraft(
  { resource, paused }: ResourceOutcome,
  acceptance: Acceptance,
  fields: StatusDraft['fields'],
  conditions: Readonly<Record<string, State | null>>,
): StatusDraft {
  const { generation } = resource.metadata;
  const observed = paused ? Math.min(generation, resource.status?.observedGeneration ?? 0) : generation;
  const isStalled = acceptance.final && acceptance.status === 'False';
  const all = Object.entries({ Accepted: acceptance, ...conditions, Stalled: isStalled ? acceptance : null });
  const drafts = all.flatMap(([type, state]) => {
    if (state === null) return [];
    return [conditionsAt(observed)(type, type === 'Stalled' ? 'True' : state.status, state.reason, state.message)];
  });
  // Of the resource as it is now: `kubectl wait` asks for that generation.
  if (paused) drafts.push(conditionsAt(generation)('Paused', 'True', 'PausedByAnnotation', pausedMessage));
  return { observedGeneration: observed, fields, conditions: drafts };
}

/** Counts as fields of a status: without those that are not known. */
export function usageFields(count: AdmissionCount | null): Readonly<Record<string, number>> {
  if (count === null) return {};
  const { running, waiting, refused } = count;
  return { ...(running === null ? null : { running }), waiting, refused };
}

/** Schema of a field of a status that is a count. */
export const countField = (description: string) => ({ type: 'integer', format: 'int64', minimum: 0, description });

/** Fields of a status that show how much of a limit is used, as the last count of all replicas found it. */
export const countProperties = {
  running: countField('Queries that run and count against it, on all replicas.'),
  waiting: countField('Submissions that wait for it.'),
  refused: countField(
    'Submissions that it refused, or would have refused where it only observes, since counting began.',
  ),
};
