import type { NameMapping } from '../model/requestUser.ts';
import type { ReadCondition, RuleTrace } from '../rules/decision.ts';
import type { StoredTrace } from '../rules/storedTrace.ts';
import type { ClusterPicker } from './candidates.ts';
import type { ConsideredCluster } from './explanation.ts';
import type { ExternalAnswer, GroupDecision } from './groupDecision.ts';
import type { RefusalReason } from './refusal.ts';

/** A cluster that was tried before the one that took the query. */
export interface FailedAttempt {
  readonly cluster: string;
  /** Why it was not it. */
  readonly error: string;
}

/** What is kept of the external rules service's answer: names of header lines, as their values may be secrets. */
export type StoredExternalAnswer =
  | { readonly outcome: 'answered'; readonly routingGroup: string; readonly setHeaders?: readonly string[] }
  | { readonly outcome: 'errors'; readonly errors: readonly string[]; readonly setHeaders?: readonly string[] }
  | Extract<ExternalAnswer, { readonly reason: string }>;

/** What is kept of a query's request beside the columns of the history, so that rules can be replayed; never a secret. */
export interface StoredRequest {
  /** Characters (UTF-16 units) of the body that rules saw; null where it was too long to be read before the decision. */
  readonly text: number | null;
  /** First values of header lines by name in lower case; null: the request had none. */
  readonly headers: Readonly<Record<string, string | null>>;
  /**
   * What the request had and is not kept: names of headers (of long or repeated lines), `query string`, `form` (the body is one)
   * and `text` (the body is in another charset than the history has it).
   */
  readonly unkept?: readonly string[];
  /** Version of the rules that decided (`RuleSet.version`); absent for none. */
  readonly rules?: string;
  /** Path; absent for /v1/statement. */
  readonly path?: string;
}

/** What is kept of what a source of groups said of a query's user. */
export interface StoredGroups {
  readonly source: string;
  readonly groups: readonly string[];
  /** How many more there are; absent for none. */
  readonly more?: number;
  readonly note?: string;
}

/** When the steps of a submission were over at the replica that took it. */
export interface DecisionTimes {
  /** When the head of its request had arrived, milliseconds since 1970. */
  readonly receivedAt: number;
  /** When user and statement were known, milliseconds after `receivedAt`; absent where it waited in the queue. */
  readonly analysed?: number;
  /** When its routing group was decided, milliseconds after `receivedAt`; absent where it was refused before, or waited in the queue. */
  readonly decided?: number;
  /** When its cluster had answered, milliseconds after `receivedAt`; absent where none did. */
  readonly submitted?: number;
}

/** A cluster that was considered for a query when it was routed. */
export interface DecisionCandidate extends ConsideredCluster {
  /** Queued and running queries by its last check; absent where that counted none. */
  readonly queued?: number;
  readonly running?: number;
  /** The one that took the query; absent for others. */
  readonly chosen?: true;
}

/** The same as it is kept. */
export interface StoredCandidate extends Pick<DecisionCandidate, 'cluster' | 'queued' | 'running'> {
  /** Absent where it is that of the decision. */
  readonly routingGroup?: string;
  /** Absent: true. */
  readonly taken?: boolean;
  /** Absent: it is active and healthy. */
  readonly reason?: string;
}

/** How a query was routed. */
export interface QueryDecision {
  /** Empty where the query was refused before one was decided. */
  readonly group: string;
  /** Of a query that was refused before its group was decided: what refused it. */
  readonly decidedBy: GroupDecision['decidedBy'];
  /** Rule that decided; of a query that was refused before its group was decided: the rule that refused it. */
  readonly rule?: string;
  /** Why the gateway refused it; absent where it did not. */
  readonly refused?: RefusalReason;
  /** Of a query that a rule refused: the rule's condition, with what it read as far as it is no secret. */
  readonly conditions?: readonly ReadCondition[];
  readonly external?: StoredExternalAnswer;
  /** Cluster that a rule chose. */
  readonly pinned?: string;
  /** Cluster that took it; empty where none did. */
  readonly cluster: string;
  /** What picked it among those that could take the query; absent where only one could by its transaction or the query that it ends. */
  readonly strategy?: ClusterPicker;
  /** Clusters of the groups that were looked at, as they were then, the first 16; absent as `strategy`. */
  readonly candidates?: readonly DecisionCandidate[];
  /** Another group served in place of the chosen one: one of its fallbacks, or the default group. */
  readonly fallback?: boolean;
  /** How it came to the cluster, a sentence each; absent where the cluster is one of the chosen group. */
  readonly steps?: readonly string[];
  readonly attempts?: readonly FailedAttempt[];
  /** What it waited for before it was admitted, and how long; absent where it did not wait. */
  readonly admission?: string;
  /** The gateway's own id under which it waited; absent where it did not wait for long. */
  readonly queuedAs?: string;
  /** Absent for queries of earlier versions, and for those that ended in the queue. */
  readonly times?: DecisionTimes;
  /** What the user mapping did; absent where the user's name is not mapped. */
  readonly userMapping?: NameMapping;
  /** Groups of its user, by source; absent where no source of groups is configured. */
  readonly userGroups?: readonly StoredGroups[];
  /** Absent for queries of earlier versions. */
  readonly request?: StoredRequest;
  /** Absent where there were no rules. */
  readonly rules?: readonly RuleTrace[];
}

/** The same as it is kept with the query in the history. */
export interface StoredDecision extends Omit<QueryDecision, 'rules' | 'decidedBy' | 'candidates'> {
  /** `userMapping`: it refused the query, and no router was asked. */
  readonly decidedBy: QueryDecision['decidedBy'] | 'userMapping';
  readonly rules?: StoredTrace;
  readonly candidates?: readonly StoredCandidate[];
}
