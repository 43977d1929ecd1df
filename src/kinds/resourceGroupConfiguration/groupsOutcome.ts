import type { DeclaredRows } from '../../model/groupsFile/declaredGroups.ts';
import type { Acceptance } from '../acceptance.ts';
import type { ResourceOutcome } from '../outcome.ts';
import { RESOURCE_GROUP_CONFIGURATION } from './spec.ts';

/** What a valid spec declares. */
export interface DeclaredGroups {
  /** Each once; null: the gateway's own. */
  readonly databases: readonly (string | null)[];
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Changes whenever what is to be stored does. */
  readonly digest: string;
  /** Names of the groups without a parent. */
  readonly roots: ReadonlySet<string>;
  readonly prune: boolean;
  readonly onDrift: 'repair' | 'report';
}

/** What a ResourceGroupConfiguration means. */
export interface GroupsOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** What the tables are to say; null: they stay as they are, as it is not accepted or is paused. */
  readonly declared: DeclaredGroups | null;
}

/** Whether an outcome is of a ResourceGroupConfiguration. */
export function isGroupsOutcome(outcome: ResourceOutcome): outcome is GroupsOutcome {
  return outcome.key.kind === RESOURCE_GROUP_CONFIGURATION;
}
