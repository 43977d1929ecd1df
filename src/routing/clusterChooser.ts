import type { Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { RequestKey } from './admissionPolicy.ts';
import { type ClusterChoice, chooseCluster } from './clusterChoice.ts';
import { type HasCapacity, unlimitedCapacity } from './eligibleClusters.ts';
import type { GroupDecision } from './groupDecision.ts';
import type { CountedSubmission } from './localLoad.ts';
import { pickByHash } from './rendezvous.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';
import { makeStrategies, type PickRequest, type Strategy } from './strategies.ts';

export interface ChoiceSettings {
  /** `routing.defaultRoutingGroup` */
  readonly defaultRoutingGroup: string;
  /** `routing.strategy` */
  readonly strategy: StrategyName;
  /** `routing.groups.{name}.strategy` */
  readonly groupStrategies: ReadonlyMap<string, StrategyName>;
  /** `routing.affinity.by` */
  readonly affinity: RequestKey;
  /** `routing.groups.{name}.affinity.by` */
  readonly groupAffinities: ReadonlyMap<string, RequestKey>;
}

export interface ChooserDependencies {
  readonly random: Random;
  /** Milliseconds that never go back. */
  readonly monotonic: () => number;
  readonly names: ProductNames;
  /** Returns true if a cluster with a limit has capacity for one more query; default: always. */
  readonly hasRoom?: HasCapacity;
}

const TRIAL_SHARE = 0.1;

/** Chooses clusters by the strategy of their group, and counts submissions if the strategy needs load. */
export class ClusterChooser {
  readonly #settings: ChoiceSettings;
  readonly #strategies: Readonly<Record<StrategyName, Strategy>>;
  readonly #hasRoom: HasCapacity;
  readonly #random: Random;

  constructor(
    settings: ChoiceSettings,
    { random, monotonic, names, hasRoom = unlimitedCapacity }: ChooserDependencies,
  ) {
    this.#settings = settings;
    this.#strategies = makeStrategies(random, monotonic, names);
    this.#hasRoom = hasRoom;
    this.#random = random;
  }

  /**
   * Chooses a cluster for a request.
   * @param request the client's request
   * @param excluded clusters that already failed this request, with the error; null for none
   * @param login hash of the login that the request belongs to, which decides in place of the strategy; null for none
   */
  choose(
    table: RoutingTable,
    decision: GroupDecision,
    request: PickRequest,
    excluded: ReadonlyMap<string, string> | null,
    login: string | null = null,
  ): ClusterChoice {
    const pick = (candidates: readonly ClusterEntry[], group: string) =>
      login !== null
        ? pickByHash(candidates, login)
        : this.#strategyOf(table, group).pick(this.#withTrials(candidates), request, () =>
            this.#affinityOf(table, group),
          );
    return chooseCluster(table, decision, this.#settings.defaultRoutingGroup, excluded, pick, this.#hasRoom);
  }

  /** Name of a group's strategy: of its `RoutingGroup`, else configured. */
  strategyOf({ admission }: RoutingTable, group: string): StrategyName {
    const { strategy, groupStrategies } = this.#settings;
    return admission.groups.get(group)?.strategy ?? groupStrategies.get(group) ?? strategy;
  }

  /** Counts a query that is sent to a cluster; null if its group's strategy does not use load. */
  countSubmission(table: RoutingTable, cluster: ClusterEntry, request: PickRequest): CountedSubmission | null {
    return this.#strategyOf(table, cluster.routingGroup).countSubmission?.(cluster, request) ?? null;
  }

  /** Removes clusters that are not registered any more. */
  sweep(table: RoutingTable): void {
    for (const strategy of Object.values(this.#strategies)) strategy.retain?.(table.clusters);
  }

  #withTrials(candidates: readonly ClusterEntry[]): readonly ClusterEntry[] {
    if (!candidates.some(isOnTrial)) return candidates;
    const chosen = candidates.filter((cluster) => !isOnTrial(cluster) || this.#random() < TRIAL_SHARE);
    return chosen.length === 0 ? candidates : chosen;
  }

  #strategyOf(table: RoutingTable, group: string): Strategy {
    return this.#strategies[this.strategyOf(table, group)];
  }

  /** Affinity key of a group, from the source that states its strategy. */
  #affinityOf({ admission }: RoutingTable, group: string): RequestKey {
    const { affinity, groupAffinities } = this.#settings;
    const policy = admission.groups.get(group);
    return policy?.strategy == null ? (groupAffinities.get(group) ?? affinity) : policy.affinity;
  }
}

function isOnTrial({ health }: ClusterEntry): boolean {
  return health.ejection === 'trial';
}
