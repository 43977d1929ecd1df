import type { Random } from '../model/clock.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { RequestKey } from './admissionPolicy.ts';
import { type ClusterChoice, chooseCluster } from './clusterChoice.ts';
import type { GroupDecision } from './groupDecision.ts';
import type { CountedSubmission } from './localLoad.ts';
import { pickByHash } from './rendezvous.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';
import { makeStrategies } from './strategies/strategies.ts';
import type { PickRequest, Strategy, StrategyDependencies } from './strategies/strategy.ts';
import { alwaysRoom, type HasRoom } from './takers.ts';

/** Settings of the choice, as they are now. */
export interface ChoiceSettings {
  /** `routing.defaultRoutingGroup` */
  readonly defaultRoutingGroup: string;
  /** `routing.strategy` */
  readonly strategy: StrategyName;
  /** `routing.groups.{name}.strategy`, of the groups that have one of their own. */
  readonly groupStrategies: ReadonlyMap<string, StrategyName>;
  /** `routing.affinity.by` */
  readonly affinity: RequestKey;
  /** `routing.groups.{name}.affinity.by`, of the groups that have one of their own. */
  readonly groupAffinities: ReadonlyMap<string, RequestKey>;
}

/** What clusters are chosen with. */
export interface ChooserDependencies extends StrategyDependencies {
  /** Whether a cluster that has a limit may run one more query; always by default. */
  readonly hasRoom?: HasRoom;
}

/** Share of the choices in which a cluster on trial is a candidate. */
const TRIAL_SHARE = 0.1;

/** Chooses clusters by the strategy of their group, and counts what was sent where that needs it. */
export class ClusterChooser {
  readonly #settings: () => ChoiceSettings;
  readonly #strategies: Readonly<Record<StrategyName, Strategy>>;
  readonly #hasRoom: HasRoom;
  readonly #random: Random;

  constructor(settings: () => ChoiceSettings, dependencies: ChooserDependencies) {
    this.#settings = settings;
    this.#strategies = makeStrategies(dependencies);
    this.#hasRoom = dependencies.hasRoom ?? alwaysRoom;
    this.#random = dependencies.random;
  }

  /**
   * Chooses a cluster for a request.
   * @param request who sends it
   * @param excluded clusters that failed this request already, with what went wrong; null for none
   * @param login hash of the login that it is a step of, which decides in place of the strategy; null for none
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
    return chooseCluster(table, decision, this.#settings().defaultRoutingGroup, excluded, pick, this.#hasRoom);
  }

  /** Name of the strategy of a group: of its `RoutingGroup`, else as the configuration says. */
  strategyOf({ admission }: RoutingTable, group: string): StrategyName {
    const { strategy, groupStrategies } = this.#settings();
    return admission.groups.get(group)?.strategy ?? groupStrategies.get(group) ?? strategy;
  }

  /** Counts a query that is sent to a cluster; null where its group's strategy does not look at load. */
  countSubmission(table: RoutingTable, cluster: ClusterEntry, request: PickRequest): CountedSubmission | null {
    return this.#strategyOf(table, cluster.routingGroup).countSubmission?.(cluster, request) ?? null;
  }

  /** Forgets clusters that are not registered any more. */
  sweep(table: RoutingTable): void {
    for (const strategy of Object.values(this.#strategies)) strategy.retain?.(table.clusters);
  }

  /** The candidates, most of the time without those on trial. */
  #withTrials(candidates: readonly ClusterEntry[]): readonly ClusterEntry[] {
    if (!candidates.some(isOnTrial)) return candidates;
    const chosen = candidates.filter((cluster) => !isOnTrial(cluster) || this.#random() < TRIAL_SHARE);
    return chosen.length === 0 ? candidates : chosen;
  }

  #strategyOf(table: RoutingTable, group: string): Strategy {
    return this.#strategies[this.strategyOf(table, group)];
  }

  /** What keeps requests of a group together: said where its strategy is. */
  #affinityOf({ admission }: RoutingTable, group: string): RequestKey {
    const { affinity, groupAffinities } = this.#settings();
    const policy = admission.groups.get(group);
    return policy?.strategy == null ? (groupAffinities.get(group) ?? affinity) : policy.affinity;
  }
}

function isOnTrial({ health }: ClusterEntry): boolean {
  return health.ejection === 'trial';
}
