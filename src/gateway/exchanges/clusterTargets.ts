import { type StoredChoice, toStoredChoice } from '../../routing/candidates.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import { explainNoCluster } from '../../routing/clusterChoice.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { PickRequest } from '../../routing/strategies.ts';
import type { ExchangeParts } from '../dataPlaneComposition.ts';
import type { Upstream } from '../upstreams/upstreams.ts';

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

/** Chooses among the clusters that the decision allows; see `ClusterChooser.choose` for the parameters. */
export function chooseTarget(
  { table: { current }, chooser, upstreams }: ExchangeParts,
  decision: GroupDecision,
  request: PickRequest,
  excluded: ReadonlyMap<string, string> | null,
  login: string | null = null,
): Target | NoTarget {
  const choice = chooser.choose(current, decision, request, excluded, login);
  const candidates = toStoredChoice(current, choice.takers, choice.cluster, excluded, (group) =>
    chooser.strategyOf(current, group),
  );
  if (choice.cluster !== null) {
    const { cluster, fallback, steps } = choice;
    return { cluster, upstream: upstreams.get(cluster.proxyTo), fallback, steps, choice: candidates };
  }
  const { pending } = choice;
  const refusal = toRefusal(pending ? 'pending' : 'no_cluster', explainNoCluster(decision, choice));
  return { cluster: null, pending, refusal, choice: candidates };
}

/** The one cluster that can take a request. */
export function onlyTarget({ upstreams }: ExchangeParts, cluster: ClusterEntry): Target {
  return { cluster, upstream: upstreams.get(cluster.proxyTo), fallback: false, steps: null, choice: null };
}
