import { type StoredChoice, toStoredChoice } from '../../routing/candidates.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import { explainNoCluster } from '../../routing/clusterChoice.ts';
import type { ClusterChooser } from '../../routing/clusterChooser.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { PickRequest } from '../../routing/strategies/strategy.ts';
import type { Upstream, Upstreams } from '../upstreams/upstreams.ts';

export interface Target {
  readonly cluster: ClusterEntry;
  /** Connections to it; null if its URL is not an HTTP URL. */
  readonly upstream: Upstream | null;
  /** True if it serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** The clusters that were there; null if only one could take it. */
  readonly choice: StoredChoice | null;
}

export interface NoTarget {
  readonly cluster: null;
  /** True if a retry soon makes sense: an active cluster has not been checked yet. */
  readonly pending: boolean;
  readonly refusal: Refusal;
  readonly choice: StoredChoice;
}

export interface ClusterTargetsDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly chooser: Pick<ClusterChooser, 'choose' | 'countSubmission' | 'strategyOf'>;
  readonly upstreams: Pick<Upstreams, 'get'>;
}

/** Chooses the cluster that takes a request, once its group is decided. */
export class ClusterTargets {
  readonly #dependencies: ClusterTargetsDependencies;

  constructor(dependencies: ClusterTargetsDependencies) {
    this.#dependencies = dependencies;
  }

  /** Chooses among the clusters that the decision allows; see `ClusterChooser.choose` for the parameters. */
  choose(
    decision: GroupDecision,
    request: PickRequest,
    excluded: ReadonlyMap<string, string> | null,
    login: string | null = null,
  ): Target | NoTarget {
    const { table, chooser, upstreams } = this.#dependencies;
    const { current } = table;
    const choice = chooser.choose(current, decision, request, excluded, login);
    const candidates = toStoredChoice(current, choice.takers, choice.cluster, excluded, (group) =>
      chooser.strategyOf(current, group),
    );
    if (choice.cluster !== null) {
      const { cluster, fallback, steps } = choice;
      return { cluster, upstream: upstreams.get(cluster.proxyTo), fallback, steps, choice: candidates };
    }
    const { pending } = choice;
    const message = explainNoCluster(decision, choice);
    const refusal = { reason: pending ? ('pending' as const) : ('no_cluster' as const), message, queryId: null };
    return { cluster: null, pending, refusal, choice: candidates };
  }

  only(cluster: ClusterEntry): Target {
    const upstream = this.#dependencies.upstreams.get(cluster.proxyTo);
    return { cluster, upstream, fallback: false, steps: null, choice: null };
  }

  /** Counts a query that is sent to a cluster; see `ClusterChooser.countSubmission`. */
  countSubmission(cluster: ClusterEntry, request: PickRequest): CountedSubmission | null {
    const { chooser, table } = this.#dependencies;
    return chooser.countSubmission(table.current, cluster, request);
  }
}
