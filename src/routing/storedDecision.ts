import type { NameMapping } from '../model/requestUser.ts';
import { type StrategyName, strategies } from '../model/strategies.ts';
import type { ReadCondition, RuleTrace } from '../rules/decision.ts';
import type { StoredTrace } from '../rules/storedTrace.ts';
import { type EligibleClusters, reasonOf } from './clusterChoice.ts';
import type { ConsideredCluster } from './explanation.ts';
import type { ExternalResponse, GroupDecision } from './groupDecision.ts';
import type { RefusalReason } from './refusal.ts';
import { type ClusterEntry, type RoutingTable, takesNewQueries } from './routingTable.ts';

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
  eligible: EligibleClusters,
  picked: ClusterEntry | null,
  excluded: ReadonlyMap<string, string> | null,
  strategyOf: (group: string) => StrategyName,
): StoredChoice {
  const { as, group } = eligible;
  const members = as === 'group' ? (table.groups.get(group) ?? []) : [];
  // Full clusters differ between queries.
  const isCommon =
    picked !== null &&
    as === 'group' &&
    eligible.passed.length === 0 &&
    excluded === null &&
    members.length <= MAX_CANDIDATES &&
    members.every(({ maxRunningQueries }) => maxRunningQueries === undefined);
  const strategy = picked === null ? null : pickerOf(eligible, strategyOf);
  if (!isCommon) return { strategy, candidates: JSON.stringify(storedCandidates(table, eligible, picked, excluded)) };
  let texts = textsByTable.get(table);
  if (texts === undefined) {
    texts = new Map();
    textsByTable.set(table, texts);
  }
  let text = texts.get(group);
  if (text === undefined) {
    text = JSON.stringify(storedCandidates(table, eligible, picked, excluded));
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
  const eligible = new Set(candidates);
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
    const taken = eligible.has(entry);
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

/** A cluster that was tried before the one that received the query. */
export interface FailedAttempt {
  readonly cluster: string;
  readonly error: string;
}

/** Stored result of the external rules service: names of headers, as their values may be secrets. */
export type StoredExternalResponse =
  | { readonly outcome: 'answered'; readonly routingGroup: string; readonly setHeaders?: readonly string[] }
  | { readonly outcome: 'errors'; readonly errors: readonly string[]; readonly setHeaders?: readonly string[] }
  | Extract<ExternalResponse, { readonly reason: string }>;

/**
 * Stored data of a query's request in addition to the columns of the history, for the replay of rules; never a secret.
 */
export interface StoredRequest {
  /** Characters (UTF-16 units) of the body that rules saw; null if it was too long to be read before the decision. */
  readonly text: number | null;
  /** First values of headers by name in lower case; null: missing in the request. */
  readonly headers: Readonly<Record<string, string | null>>;
  /**
   * Parts of the request that are not stored: names of headers (long or repeated ones), `query string`, `form` (the
   * body is one) and `text` (the body is in another charset than the history has it).
   */
  readonly unkept?: readonly string[];
  /** Version of the rules that decided (`RuleSet.version`); absent without rules. */
  readonly rules?: string;
  /** Path; absent for /v1/statement. */
  readonly path?: string;
}

/** Stored groups of a query's user from one source. */
export interface StoredUserGroups {
  readonly source: string;
  readonly groups: readonly string[];
  readonly more?: number;
  readonly note?: string;
}

/** Times of a submission's steps at the replica that received it. */
export interface DecisionTimes {
  /** Time at which the head of its request arrived, milliseconds since 1970. */
  readonly receivedAt: number;
  /** Time at which user and statement were known, milliseconds after `receivedAt`; absent for a queued query. */
  readonly analysed?: number;
  /**
   * Time at which its routing group was decided, milliseconds after `receivedAt`; absent if it was rejected before, or
   * queued.
   */
  readonly decided?: number;
  /** Time of its cluster's response, milliseconds after `receivedAt`; absent if there was none. */
  readonly submitted?: number;
}

export interface DecisionCandidate extends ConsideredCluster {
  /** Queued and running queries of its last check; absent if that counted none. */
  readonly queued?: number;
  readonly running?: number;
  readonly chosen?: true;
}

/** A stored `DecisionCandidate`. */
export interface StoredCandidate extends Pick<DecisionCandidate, 'cluster' | 'queued' | 'running'> {
  readonly routingGroup?: string;
  /** Absent: true. */
  readonly taken?: boolean;
  /** Absent: it is active and healthy. */
  readonly reason?: string;
}

export interface QueryDecision {
  /** Empty if the query was rejected before a group was decided. */
  readonly group: string;
  /** For a query that was rejected before its group was decided: what rejected it. */
  readonly decidedBy: GroupDecision['decidedBy'];
  /** Rule that decided or rejected the query. */
  readonly rule?: string;
  /** Reason of the gateway's rejection, if any. */
  readonly refused?: RefusalReason;
  /** For a query that a rule rejected: the rule's condition, with the values that it read except secrets. */
  readonly conditions?: readonly ReadCondition[];
  readonly external?: StoredExternalResponse;
  readonly pinned?: string;
  readonly cluster: string;
  /**
   * Origin of the choice among eligible clusters; absent if only one was eligible by its transaction or the query that
   * it kills.
   */
  readonly strategy?: ClusterPicker;
  /** Clusters of the examined groups at that time, the first 16; absent as `strategy`. */
  readonly candidates?: readonly DecisionCandidate[];
  /** True if another group replaced the chosen one: one of its fallbacks, or the default group. */
  readonly fallback?: boolean;
  /** Steps to the cluster, a sentence each; absent if the cluster belongs to the chosen group. */
  readonly steps?: readonly string[];
  readonly attempts?: readonly FailedAttempt[];
  /** Reason and duration of the wait for admission; absent if it did not wait. */
  readonly admission?: string;
  /** Its id in the queue; absent if it did not wait for long. */
  readonly queuedAs?: string;
  /** Absent for queries of earlier versions, and for queries that ended in the queue. */
  readonly times?: DecisionTimes;
  /** Result of the user mapping; absent if the user's name is not mapped. */
  readonly userMapping?: NameMapping;
  /** Groups of its user by source; absent without a configured source. */
  readonly userGroups?: readonly StoredUserGroups[];
  /** Absent for queries of earlier versions. */
  readonly request?: StoredRequest;
  readonly rules?: readonly RuleTrace[];
}

/** A `QueryDecision` as stored with the query in the history. */
export interface StoredDecision extends Omit<QueryDecision, 'rules' | 'decidedBy' | 'candidates'> {
  /** `userMapping`: it rejected the query, and no router was called. */
  readonly decidedBy: QueryDecision['decidedBy'] | 'userMapping';
  readonly rules?: StoredTrace;
  readonly candidates?: readonly StoredCandidate[];
}
