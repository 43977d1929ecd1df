import { declarationStatus } from '../declarationStatus.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import { usageFields } from '../usage.ts';
import type { LimitOutcome } from './limitOutcome.ts';

/** The status of a query limit. Pure. */
export function limitStatus(
  outcome: LimitOutcome,
  { stored, counts }: Pick<StatusView, 'stored' | 'counts'>,
): StatusDraft {
  const { policy } = outcome;
  return declarationStatus(outcome, stored, usageFields(policy === null ? null : counts.limit(policy.key)));
}
