import type { ResourceKey } from '../../model/resource.ts';

/** External changes of declared rows. */
export interface GroupDrift {
  /** Time at which it was noticed, RFC 3339. */
  readonly at: string;
  /** False: the rows still differ. */
  readonly repaired: boolean;
  /** Number of rows that differed. */
  readonly count: number;
  /** A sentence for some of them. */
  readonly differences: readonly string[];
}

export interface GroupTargetState {
  /** Null: the gateway's own. */
  readonly database: string | null;
  readonly environment: string;
  /** Generation that was applied last; null: none. */
  readonly appliedGeneration: number | null;
  readonly groups: number;
  readonly selectors: number;
  readonly drift: GroupDrift | null;
  /** Reason why the present generation is not applied; null: it is. */
  readonly failure: { readonly reason: string; readonly message: string } | null;
}

/** States of the groups that resources declare. */
export interface GroupTargets {
  /** By database; null: not tried yet. */
  of(key: ResourceKey): readonly GroupTargetState[] | null;
}

/** Name of a database for people. @param database null: the gateway's own */
export function databaseTitle(database: string | null): string {
  return database ?? "the gateway's own database";
}
