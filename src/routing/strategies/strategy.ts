import type { Random } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestKey } from '../admissionPolicy.ts';
import type { CountedSubmission } from '../localLoad.ts';
import type { KeyedRequest } from '../requestKey.ts';
import type { ClusterEntry } from '../routingTable.ts';

export type PickRequest = KeyedRequest;

/** Chooses a cluster of a group; one instance serves all groups that are configured with it. */
export interface Strategy {
  /**
   * Picks the cluster of a request, synchronously and without exceptions.
   * @param candidates eligible clusters of the group, sorted by name; at least one
   * @param affinity affinity key of the group, for strategies that use it
   */
  pick(candidates: readonly ClusterEntry[], request: PickRequest, affinity: () => RequestKey): ClusterEntry;
  /** Counts a query that is sent to a cluster; absent for strategies that do not use load. */
  countSubmission?(cluster: ClusterEntry, request: PickRequest): CountedSubmission;
  /** Removes clusters that are not registered any more; absent for strategies without state. */
  retain?(registered: { has(cluster: string): boolean }): void;
}

export interface StrategyDependencies {
  readonly random: Random;
  /** Milliseconds that never go back. */
  readonly monotonic: () => number;
  readonly names: ProductNames;
}
