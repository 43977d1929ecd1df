import type { GroupDecision } from './groupDecision.ts';
import type { ClusterEntry, RoutingTable } from './routingTable.ts';

/** Why a cluster was not taken. */
export interface NotTaken {
  readonly cluster: string;
  readonly group: string;
  /** Sentence part, e.g. `is inactive` or `is UNHEALTHY (connection refused)`. */
  readonly reason: string;
}

/** Picks one of the clusters that may take a request; there is at least one. */
export type PickCluster = (candidates: readonly ClusterEntry[], group: string) => ClusterEntry;

/** The cluster chosen for a request, or why there is none. */
export type ClusterChoice =
  | {
      readonly cluster: ClusterEntry;
      /** True when the default group serves in place of the chosen one. */
      readonly fallback: boolean;
    }
  | {
      readonly cluster: null;
      readonly notTaken: readonly NotTaken[];
      /** True when an active cluster of these groups has not been checked yet: a retry soon makes sense. */
      readonly pending: boolean;
    };

/**
 * Chooses a cluster: registered, active, HEALTHY, of the group; none: the same in the default group, unless the rule
 * rejects (docs/routing.md#which-cluster-takes-a-query).
 * @param excluded clusters that failed this request already, with what went wrong; null for none
 * @param pick chooses among those of a group that may take it
 */
export function chooseCluster(
  table: RoutingTable,
  decision: GroupDecision,
  defaultGroup: string,
  excluded: ReadonlyMap<string, string> | null,
  pick: PickCluster,
): ClusterChoice {
  if (decision.cluster !== null) {
    const pinned = table.clusters.get(decision.cluster);
    if (pinned !== undefined && isRoutable(pinned, excluded)) return { cluster: pinned, fallback: false };
  } else {
    const candidates = routable(table.groups.get(decision.group), excluded);
    if (candidates.length > 0) return { cluster: pick(candidates, decision.group), fallback: false };
  }
  const fallsBack =
    decision.onUnavailable === 'fallback' && (decision.cluster !== null || decision.group !== defaultGroup);
  if (fallsBack) {
    const candidates = routable(table.groups.get(defaultGroup), excluded);
    if (candidates.length > 0) return { cluster: pick(candidates, defaultGroup), fallback: true };
  }
  return explain(table, decision, fallsBack ? defaultGroup : null, excluded);
}

function isRoutable(cluster: ClusterEntry, excluded: ReadonlyMap<string, string> | null): boolean {
  return cluster.active && cluster.health.status === 'HEALTHY' && excluded?.has(cluster.name) !== true;
}

const none: readonly ClusterEntry[] = [];

function routable(
  members: readonly ClusterEntry[] | undefined,
  excluded: ReadonlyMap<string, string> | null,
): readonly ClusterEntry[] {
  if (members === undefined) return none;
  // Nearly always all of them are: no list of its own for each request then.
  if (members.every((member) => isRoutable(member, excluded))) return members;
  return members.filter((member) => isRoutable(member, excluded));
}

function explain(
  table: RoutingTable,
  decision: GroupDecision,
  fallbackGroup: string | null,
  excluded: ReadonlyMap<string, string> | null,
): ClusterChoice {
  const candidates: ClusterEntry[] = [];
  const notTaken: NotTaken[] = [];
  if (decision.cluster === null) candidates.push(...(table.groups.get(decision.group) ?? []));
  else {
    const pinned = table.clusters.get(decision.cluster);
    if (pinned === undefined)
      notTaken.push({ cluster: decision.cluster, group: decision.group, reason: 'is not registered' });
    else candidates.push(pinned);
  }
  if (fallbackGroup !== null) {
    for (const member of table.groups.get(fallbackGroup) ?? [])
      if (!candidates.includes(member)) candidates.push(member);
  }
  for (const cluster of candidates) {
    notTaken.push({ cluster: cluster.name, group: cluster.routingGroup, reason: reasonOf(cluster, excluded) });
  }
  const pending = candidates.some((cluster) => cluster.active && cluster.health.status === 'PENDING');
  return { cluster: null, notTaken, pending };
}

/** Why a cluster cannot take a request now: a part of a sentence. */
export function reasonOf(cluster: ClusterEntry, excluded: ReadonlyMap<string, string> | null): string {
  const failure = excluded?.get(cluster.name);
  if (failure !== undefined) return `failed (${failure})`;
  if (!cluster.active) return 'is inactive';
  return `is ${cluster.health.status} (${cluster.health.reason})`;
}

/** The sentence of a refusal: the group, and why each cluster was not taken. */
export function explainNoCluster(decision: GroupDecision, notTaken: readonly NotTaken[], defaultGroup: string): string {
  const refusal =
    decision.cluster === null
      ? `No healthy cluster in routing group ${quote(decision.group)}`
      : `Cluster ${quote(decision.cluster)} cannot take the query`;
  const tail =
    decision.onUnavailable === 'fallback' && decision.group !== defaultGroup
      ? ` nor in the default routing group ${quote(defaultGroup)}`
      : '';
  const by = decision.rule === null ? '' : ` (chosen by rule ${quote(decision.rule)})`;
  if (notTaken.length === 0) return `${refusal}${by}${tail}: no cluster is registered there`;
  return `${refusal}${by}${tail}: ${notTaken.map(({ cluster, reason }) => `${cluster} ${reason}`).join('; ')}`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}…` : text);
}
