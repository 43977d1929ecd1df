import type { Random } from '../model/clock.ts';
import { type ClusterChoice, chooseCluster } from './clusterChoice.ts';
import type { GroupDecision } from './groupDecision.ts';
import { type CountedSubmission, LocalLoad } from './localLoad.ts';
import { pickByHash, pickByWeight, pickLeastLoaded, type Strategy } from './pickCluster.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';

/** Settings of the choice, as they are now. */
export interface ChoiceSettings {
  /** `routing.defaultRoutingGroup` */
  readonly defaultRoutingGroup: string;
  /** `routing.strategy` */
  readonly strategy: Strategy;
  /** `routing.groups.{name}.strategy`, of the groups that have one of their own. */
  readonly groupStrategies: ReadonlyMap<string, Strategy>;
}

/** Chooses clusters by the strategy of their group, and counts what was sent where that needs it. */
export class ClusterChooser {
  readonly #settings: () => ChoiceSettings;
  readonly #random: Random;
  readonly #local: LocalLoad;

  /** @param monotonic milliseconds that never go back */
  constructor(settings: () => ChoiceSettings, random: Random, monotonic: () => number) {
    this.#settings = settings;
    this.#random = random;
    this.#local = new LocalLoad(monotonic);
  }

  /**
   * Chooses a cluster for a request.
   * @param user who asks; null where that is not known
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
    return chooseCluster(table, decision, this.#settings().defaultRoutingGroup, excluded, (candidates, group) => {
      if (login !== null) return pickByHash(candidates, login);
      return this.#strategyOf(group) === 'leastLoaded'
        ? pickLeastLoaded(candidates, user, this.#local, this.#random)
        : pickByWeight(candidates, this.#random);
    });
  }

  /** Counts a query that is sent to a cluster; null where its group's strategy does not look at load. */
  submitted(cluster: ClusterEntry, user: string | null): CountedSubmission | null {
    return this.#strategyOf(cluster.routingGroup) === 'leastLoaded' ? this.#local.submitted(cluster.name, user) : null;
  }

  /** Forgets clusters that are gone. */
  sweep(table: RoutingTable): void {
    this.#local.retain(table.clusters);
  }

  #strategyOf(group: string): Strategy {
    const { strategy, groupStrategies } = this.#settings();
    return groupStrategies.get(group) ?? strategy;
  }
}
