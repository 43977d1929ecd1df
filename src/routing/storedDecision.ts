import type { NameMapping } from '../model/requestUser.ts';
import type { SizeEstimate } from '../model/sizeEstimates.ts';
import { type StrategyName, strategies } from '../model/strategies.ts';
import type { StoredTrace } from '../rules/decide/trace.ts';
import type { ReadCondition, RuleTrace } from '../rules/decision.ts';
import type { EligibleClusters, GroupRole, NoCluster, PassedGroup } from './clusterChooser.ts';
import type { ConsideredCluster } from './explanation.ts';
import type { ExternalResponse, GroupDecision } from './groupRouter.ts';
import type { RefusalReason } from './refusal.ts';
import { type ClusterEntry, isAvailable, type RoutingTable } from './routingTable.ts';

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

/** The chosen cluster, other eligible ones, then the other clusters of the examined groups. */
export function storedCandidates(
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
    const reason = taken && isAvailable(entry) ? null : reasonOf(entry, excluded).slice(0, MAX_REASON_LENGTH);
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
  /** Expected size when it was sent; absent if no rule or limit reads it. */
  readonly estimate?: SizeEstimate;
  readonly rules?: readonly RuleTrace[];
}

/** A `QueryDecision` as stored with the query in the history. */
export interface StoredDecision extends Omit<QueryDecision, 'rules' | 'decidedBy' | 'candidates'> {
  /** `userMapping`: it rejected the query, and no router was called. */
  readonly decidedBy: QueryDecision['decidedBy'] | 'userMapping';
  readonly rules?: StoredTrace;
  readonly candidates?: readonly StoredCandidate[];
}

/** A step from the decided routing group to the cluster that receives the request. */
export interface ChoiceStep {
  readonly group: string;
  readonly outcome: 'unavailable' | 'full' | 'serves' | 'bestEffort';
  /** Description for users: `group etl: no healthy cluster (etl-1 is UNHEALTHY (connection refused))`. */
  readonly text: string;
}

/** Maximum number of clusters named by a step; a group may have hundreds. */
const MAX_NAMED = 5;
const MAX_REASON = 256;

const labels: Readonly<Record<GroupRole, string>> = {
  group: 'group',
  pinned: 'cluster',
  fallback: 'fallback',
  default: 'default group',
  bestEffort: 'best effort',
};

/**
 * Returns the steps to the eligible clusters; null if the decided group has one.
 * @param takers has at least one candidate
 * @param picked named candidates: the chosen one, or all
 * @param excluded clusters that already failed the request; null for none
 */
export function stepsTo(
  { as, group, passed }: EligibleClusters,
  picked: readonly ClusterEntry[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ChoiceStep[] | null {
  if (passed.length === 0) return null;
  const names = picked.map((cluster) =>
    as === 'bestEffort' ? `${cluster.name} ${reasonOf(cluster, excluded)}` : cluster.name,
  );
  const text =
    as === 'bestEffort' ? `best effort: ${listed(names, ' or ')}` : `${labels[as]} ${group}: ${listed(names, ' or ')}`;
  const outcome = as === 'bestEffort' ? 'bestEffort' : 'serves';
  return [...stepsPast(passed, excluded), { group, outcome, text }];
}

/** The steps past groups without eligible clusters. */
export function stepsPast(
  passed: readonly PassedGroup[],
  excluded: ReadonlyMap<string, string> | null,
): readonly ChoiceStep[] {
  return passed.map((one): ChoiceStep => ({ group: one.group, outcome: one.because, text: passedText(one, excluded) }));
}

export function stepsText(steps: readonly ChoiceStep[]): string {
  return steps.map(({ text }) => text).join('; ');
}

function passedText(
  { as, group, because, members }: PassedGroup,
  excluded: ReadonlyMap<string, string> | null,
): string {
  const label = `${labels[as]} ${group}`;
  if (members.length === 0)
    return as === 'pinned' ? `${label} is not registered` : `${label}: no cluster is registered there`;
  if (as === 'pinned')
    return `${label} ${listed(
      members.map((member) => reasonOf(member, excluded)),
      '; ',
    )}`;
  const reasons = members.map((member) => `${member.name} ${reasonOf(member, excluded)}`);
  return `${label}: ${because === 'full' ? 'no cluster has room' : 'no healthy cluster'} (${listed(reasons, '; ')})`;
}

function listed(texts: readonly string[], separator: string): string {
  const left = texts.length - MAX_NAMED;
  const named = texts
    .slice(0, MAX_NAMED)
    .map((text) => (text.length > MAX_REASON ? `${text.slice(0, MAX_REASON)}…` : text));
  return named.join(separator) + (left > 0 ? `${separator}${left} more` : '');
}

/** Returns the reason that a cluster is not eligible: a part of a sentence. */
export function reasonOf(cluster: ClusterEntry, excluded: ReadonlyMap<string, string> | null): string {
  const failure = excluded?.get(cluster.name);
  if (failure !== undefined) return `failed (${failure})`;
  if (!cluster.active) return 'is inactive';
  const { status, reason } = cluster.health;
  if (status !== 'HEALTHY') return `is ${status} (${reason})`;
  if (cluster.rolloutOnly === true) return 'takes only queries of rollouts (rolloutOnly)';
  return cluster.maxRunningQueries === undefined
    ? 'is HEALTHY'
    : `is full (maxRunningQueries ${cluster.maxRunningQueries})`;
}

/** Describes the rejection: the group, and the reason for each cluster. */
export function explainNoCluster(
  decision: GroupDecision,
  { notTaken, passed }: Pick<NoCluster, 'notTaken' | 'passed'>,
): string {
  const refusal =
    decision.cluster === null
      ? `No healthy cluster in routing group ${quote(decision.group)}`
      : `Cluster ${quote(decision.cluster)} cannot take the query`;
  const fallbacks = passed.filter(({ as }) => as === 'fallback').map(({ group }) => quote(group));
  const named = fallbacks.length > 1 ? `fallbacks ${fallbacks.join(', ')}` : `fallback ${fallbacks.join()}`;
  const instead = fallbacks.length === 0 ? '' : ` nor in its ${named}`;
  const last = passed.find(({ as }) => as === 'default');
  const tail = last === undefined ? '' : ` nor in the default routing group ${quote(last.group)}`;
  const by = decision.rule === null ? '' : ` (chosen by rule ${quote(decision.rule)})`;
  const where = `${refusal}${by}${instead}${tail}`;
  if (notTaken.length === 0) return `${where}: no cluster is registered there`;
  return `${where}: ${notTaken.map(({ cluster, reason }) => `${cluster} ${reason}`).join('; ')}`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > 256 ? `${text.slice(0, 256)}…` : text);
}
