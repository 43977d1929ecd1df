import type { ConditionDraft, ConditionStatus, conditionsAt } from '../model/condition.ts';
import { nameConflictMessage } from '../model/nameClaims.ts';
import type { Resource } from '../model/resource.ts';
import type { ResourceOutcome } from './outcome.ts';
import type { Stored } from './status.ts';

export interface Acceptance {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  /** Nothing but a change of the resource, or of the one that has its name, fixes it (condition `Stalled`). */
  readonly final: boolean;
}

/** A resource that is not accepted until a user changes it. */
export function refused(reason: string, message: string): Acceptance {
  return { status: 'False', reason, message, final: true };
}

export function nameConflict(resource: Resource, holder: Resource): Acceptance {
  return refused('NameConflict', nameConflictMessage(resource, holder));
}

/**
 * Returns the reason that a namespace may not declare something of routing groups (docs/resources.md#several-teams).
 */
export interface GroupRefusal {
  /** Field of the spec, without `spec.`; null: no field is to be corrected. */
  readonly field: string | null;
  readonly message: string;
}

/** The acceptance of a resource whose namespace may not declare it. */
export function groupNotAllowed({ field, message }: GroupRefusal): Acceptance {
  return refused('GroupNotAllowed', field === null ? message : `spec.${field}: ${message}`);
}

/** The acceptance of a version in whose place the last good one is active. */
export function withLastGood(acceptance: Acceptance): Acceptance {
  return { ...acceptance, message: `${acceptance.message}; the last good version stays in force` };
}

/** Status, reason and message of the condition `Ready`. */
export function ready(
  acceptance: Acceptance,
  stored: Stored,
): readonly [status: ConditionStatus, reason: string, message: string] {
  if (acceptance.status !== 'True') return [acceptance.status, acceptance.reason, acceptance.message];
  if (!stored.stored) return ['False', 'NotStored', stored.reason];
  return ['True', 'Ready', 'accepted, in the routing table and in the database'];
}

/** The condition `Stalled`, where nothing else helps than a change by a user. */
export function stalled(
  { final, status, reason, message }: Acceptance,
  condition: ReturnType<typeof conditionsAt>,
): readonly ConditionDraft[] {
  return final && status === 'False' ? [condition('Stalled', 'True', reason, message)] : [];
}

/** True if a resource is accepted as it is; false for kinds that accept in another way. */
export function isAccepted(outcome: ResourceOutcome & { readonly acceptance?: Acceptance }): boolean {
  return outcome.acceptance?.status === 'True';
}
