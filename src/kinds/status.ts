import type { ConditionDraft } from '../model/condition.ts';
import type { AdmissionCounts } from '../routing/admissionCounts.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { DataPlaneFindings } from './dataPlaneFindings.ts';
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
