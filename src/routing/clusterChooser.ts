import type { StrategyName } from '../model/strategies.ts';
import { type ClusterChoice, chooseCluster } from './clusterChoice.ts';
import type { GroupDecision } from './groupDecision.ts';
import type { CountedSubmission } from './localLoad.ts';
import { pickByHash } from './rendezvous.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';
import { makeStrategies } from './strategies/strategies.ts';
import type { Strategy, StrategyDependencies } from './strategies/strategy.ts';

/** Settings of the choice, as they are now. */
export interface ChoiceSettings {
  /** `routing.defaultRoutingGroup` */
  readonly defaultRoutingGroup: string;
  /** `routing.strategy` */
  readonly strategy: StrategyName;
  /** `routing.groups.{name}.strategy`, of the groups that have one of their own. */
  readonly groupStrategies: ReadonlyMap<string, StrategyName>;
}

/** Chooses clusters by the strategy of their group, and counts what was sent where that needs it. */
export class ClusterChooser {
  readonly #settings: () => ChoiceSettings;
  readonly #strategies: Readonly<Record<StrategyName, Strategy>>;

  constructor(settings: () => ChoiceSettings, dependencies: StrategyDependencies) {
    this.#settings = settings;
    this.#strategies = makeStrategies(dependencies);
  }

  /**
   * Chooses a cluster for a request.
   * @param user the user of the request; null where it is not known
   * @param excluded clusters that failed this request already, with what went wrong; null for none
   * @param login hash of the login that it is a step of, which decides in place of the strategy; null for none
   */
  choose(
    table: RoutingTable,
    decision: GroupDecision,
    user: string | null,
    excluded: ReadonlyMap<string, string> | null,
    login: string | null = null,
  ): ClusterChoice {
    return chooseCluster(table, decision, this.#settings().defaultRoutingGroup, excluded, (candidates, group) =>
      login !== null ? pickByHash(candidates, login) : this.#strategyOf(group).pick(candidates, { user }),
    );
  }

  /** Counts a query that is sent to a cluster; null where its group's strategy does not look at load. */
  countSubmission(cluster: ClusterEntry, user: string | null): CountedSubmission | null {
    return this.#strategyOf(cluster.routingGroup).countSubmission?.(cluster, { user }) ?? null;
  }

  /** Forgets clusters that are not registered any more. */
  sweep(table: RoutingTable): void {
    for (const strategy of Object.values(this.#strategies)) strategy.retain?.(table.clusters);
  }

  #strategyOf(group: string): Strategy {
    const { strategy, groupStrategies } = this.#settings();
    return this.#strategies[groupStrategies.get(group) ?? strategy];
  }
}
