import { declarationStatus } from '../declarationStatus.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { GroupOutcome } from './groupOutcome.ts';

/** The status of a routing group. Pure. */
export function groupStatus(
  outcome: GroupOutcome,
  { stored, counts }: Pick<StatusView, 'stored' | 'counts'>,
): StatusDraft {
  const { policy, registryName, clusters } = outcome;
  return declarationStatus(outcome, stored, { clusters, ...(policy === null ? null : counts.group(registryName)) });
}
