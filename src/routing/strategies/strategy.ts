import type { Random } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestKey } from '../admissionPolicy.ts';
import type { CountedSubmission } from '../localLoad.ts';
import type { KeyedRequest } from '../requestKey.ts';
import type { ClusterEntry } from '../routingTable.ts';

/** What a strategy knows of the request that a cluster is picked for. */
export type PickRequest = KeyedRequest;

/** How a cluster of a group is chosen; one instance serves all groups that are configured with it. */
export interface Strategy {
  /**
   * Picks the cluster of a request. Neither waits nor throws.
   * @param candidates clusters of the group that may take the request, in order of names; at least one
   * @param affinity what keeps requests of the group together, for strategies that do that
   */
  pick(candidates: readonly ClusterEntry[], request: PickRequest, affinity: () => RequestKey): ClusterEntry;
  /** Counts a query that is sent to a cluster; left out by strategies that do not look at load. */
  countSubmission?(cluster: ClusterEntry, request: PickRequest): CountedSubmission;
  /** Forgets clusters that are not registered any more; left out by strategies that remember none. */
  retain?(registered: { has(cluster: string): boolean }): void;
}

/** What strategies depend on. */
export interface StrategyDependencies {
  readonly random: Random;
  /** Milliseconds that never go back. */
  readonly monotonic: () => number;
  /** Names of headers. */
  readonly names: ProductNames;
}
