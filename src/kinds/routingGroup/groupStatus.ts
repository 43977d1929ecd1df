import { declarationStatus } from '../declarationStatus.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import { usageFields } from '../usage.ts';
import type { GroupOutcome } from './groupOutcome.ts';

/** The status of a routing group. Pure. */
export function groupStatus(
  outcome: GroupOutcome,
  { stored, counts }: Pick<StatusView, 'stored' | 'counts'>,
): StatusDraft {
  const { policy, registryName, clusters } = outcome;
  const usage = usageFields(policy === null ? null : counts.group(registryName));
  return declarationStatus(outcome, stored, { clusters, ...usage });
}
