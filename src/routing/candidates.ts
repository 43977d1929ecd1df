import { type StrategyName, strategies } from '../model/strategies.ts';
import { reasonOf } from './choiceSteps.ts';
import type { EligibleClusters } from './eligibleClusters.ts';
import { type ClusterEntry, type RoutingTable, takesNewQueries } from './routingTable.ts';
import type { DecisionCandidate, StoredCandidate } from './storedDecision.ts';

/** Maximum number of clusters stored with a query. */
export const MAX_CANDIDATES = 16;
const MAX_REASON_LENGTH = 256;

/** Origin of the cluster choice: the strategy of its group, a rule by its name, or a single candidate. */
export type ClusterPicker = StrategyName | 'rule' | 'only';

/** Candidate clusters of a query and the origin of the choice, as stored. */
export interface StoredChoice {
  /** Null: no cluster was eligible. */
  readonly strategy: ClusterPicker | null;
  /** `StoredCandidate`s as JSON. */
  readonly candidates: string;
}

const healthy = 'active and healthy';
const reasonsOfChoice: Readonly<Record<ClusterPicker, string>> = {
  ...strategies,
  rule: 'the one that the rule chose',
  only: 'the only one that could take it',
};

/** Texts of candidates shared by all queries, by table and group: the same for thousands of queries. */
const textsByTable = new WeakMap<RoutingTable, Map<string, string>>();

/**
 * Returns the current candidates of a query for storage.
 * @param picked null if no cluster was eligible
 * @param excluded clusters that already failed it; null for none
 */
export function toStoredChoice(
  table: RoutingTable,
  takers: EligibleClusters,
  picked: ClusterEntry | null,
  excluded: ReadonlyMap<string, string> | null,
  strategyOf: (group: string) => StrategyName,
): StoredChoice {
  const { as, group } = takers;
  const members = as === 'group' ? (table.groups.get(group) ?? []) : [];
  // Full clusters differ between queries.
  const isCommon =
    picked !== null &&
    as === 'group' &&
    takers.passed.length === 0 &&
    excluded === null &&
    members.length <= MAX_CANDIDATES &&
    members.every(({ maxRunningQueries }) => maxRunningQueries === undefined);
  const strategy = picked === null ? null : pickerOf(takers, strategyOf);
  if (!isCommon) return { strategy, candidates: JSON.stringify(storedCandidates(table, takers, picked, excluded)) };
  let texts = textsByTable.get(table);
  if (texts === undefined) {
    texts = new Map();
    textsByTable.set(table, texts);
  }
  let text = texts.get(group);
  if (text === undefined) {
    text = JSON.stringify(storedCandidates(table, takers, picked, excluded));
    texts.set(group, text);
  }
  return { strategy, candidates: text };
}

/** Restores stored candidates. @param chosen cluster that received the query; empty for none */
export function readCandidates(
  stored: readonly StoredCandidate[],
  {
    group,
    cluster: chosen,
    strategy,
  }: { readonly group: string; readonly cluster: string; readonly strategy?: ClusterPicker },
): readonly DecisionCandidate[] {
  return stored.map(
    ({ cluster, routingGroup = group, taken = true, reason = healthy, ...counts }): DecisionCandidate => {
      const isChosen = cluster === chosen;
      const why =
        strategy === undefined || !Object.hasOwn(reasonsOfChoice, strategy) ? strategy : reasonsOfChoice[strategy];
      const because = isChosen && why !== undefined ? `${reason}; picked: ${why}` : reason;
      return { cluster, routingGroup, taken, reason: because, ...counts, ...(isChosen ? { chosen: true } : {}) };
    },
  );
}

function pickerOf(
  { as, group, candidates }: EligibleClusters,
  strategyOf: (group: string) => StrategyName,
): ClusterPicker {
  if (as === 'pinned') return 'rule';
  return candidates.length === 1 ? 'only' : strategyOf(group);
}

/** The chosen cluster, other eligible ones, then the other clusters of the examined groups. */
function storedCandidates(
  table: RoutingTable,
  { as, group, candidates, passed }: EligibleClusters,
  picked: ClusterEntry | null,
  excluded: ReadonlyMap<string, string> | null,
): readonly StoredCandidate[] {
  const takers = new Set(candidates);
  const isLarge = candidates.length > MAX_CANDIDATES;
  const own = as === 'pinned' ? [] : (table.groups.get(group) ?? []);
  const all = new Set([
    ...(isLarge && picked !== null ? [picked] : []),
    ...candidates,
    ...own,
    ...passed.flatMap(({ members }) => members.slice(0, MAX_CANDIDATES)),
  ]);
  return [...all].slice(0, MAX_CANDIDATES).map((entry): StoredCandidate => {
    const { name, routingGroup, health } = entry;
    const taken = takers.has(entry);
    const reason = taken && takesNewQueries(entry) ? null : reasonOf(entry, excluded).slice(0, MAX_REASON_LENGTH);
    return {
      cluster: name,
      ...(routingGroup === group ? {} : { routingGroup }),
      ...(taken ? {} : { taken }),
      ...(reason === null ? {} : { reason: taken ? `best effort: ${reason}` : reason }),
      ...(taken && health.queued !== null ? { queued: health.queued } : {}),
      ...(taken && health.running !== null ? { running: health.running } : {}),
    };
  });
}
