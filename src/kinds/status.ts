import type { ConditionDraft } from '../model/condition.ts';
import type { AdmissionCounts } from '../routing/admissionCounts.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { DataPlaneFindings } from './dataPlaneFindings.ts';
import type { GroupTargets } from './resourceGroupConfiguration/groupTargets.ts';

/** A status before the times of its transitions are known. */
export interface StatusDraft {
  readonly observedGeneration: number;
  readonly conditions: readonly ConditionDraft[];
  /** Further fields of the status. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Whether the database has a resource as it is now. */
export interface Stored {
  readonly stored: boolean;
  /** Why not; empty when it has. */
  readonly reason: string;
}

/** What a status contains beside the outcome of the resource. */
export interface StatusView {
  readonly stored: Stored;
  /** As it is now, with the health of clusters. */
  readonly table: RoutingTable;
  readonly findings: DataPlaneFindings;
  /** How much of limits is used. */
  readonly counts: AdmissionCounts;
  /** What became of resource groups. */
  readonly targets: GroupTargets;
}
