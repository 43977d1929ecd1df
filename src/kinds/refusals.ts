import type { ConditionDraft } from '../model/condition.ts';
import { noCounts } from '../routing/admissionCounts.ts';
import { emptyTable } from '../routing/routingTable.ts';
import { DataPlaneFindings } from './dataPlaneFindings.ts';
import type { ResourceOutcome } from './outcome.ts';
import type { ResourceKind } from './resourceKind.ts';

/** The reason that a resource is not accepted until a user changes it, as its status has it (condition `Stalled`). */
export function refusalOf(kind: ResourceKind, outcome: ResourceOutcome): ConditionDraft | undefined {
  const view = {
    ...{ stored: { stored: true, reason: '' }, table: emptyTable, findings: new DataPlaneFindings() },
    ...{ counts: noCounts, targets: () => null },
  };
  return kind.status(outcome, view).conditions.find(({ type }) => type === 'Stalled');
}
