import type { ResourceKey } from '../../model/resource.ts';
import type { GroupDrift } from '../../store/store.ts';

/** What became of a resource's groups in one database. */
export interface GroupTargetState {
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
  /** Generation that was applied last; null: none. */
  readonly appliedGeneration: number | null;
  readonly groups: number;
  readonly selectors: number;
  readonly drift: GroupDrift | null;
  /** Why the present generation is not there; null: it is. */
  readonly failure: { readonly reason: string; readonly message: string } | null;
}

/** What became of the groups that resources declare. */
export interface GroupTargets {
  /** By database; null: it was not tried yet. */
  of(key: ResourceKey): readonly GroupTargetState[] | null;
}

/** Where nothing is applied. */
export const noTargets: GroupTargets = { of: () => null };
