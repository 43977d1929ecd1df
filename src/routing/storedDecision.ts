import type { RuleTrace } from '../rules/decision.ts';
import type { StoredTrace } from '../rules/storedTrace.ts';
import type { ExternalAnswer, GroupDecision } from './groupDecision.ts';

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

/** How a query was routed. */
export interface QueryDecision {
  readonly group: string;
  readonly decidedBy: GroupDecision['decidedBy'];
  readonly rule?: string;
  readonly external?: StoredExternalAnswer;
  /** Cluster that a rule chose. */
  readonly pinned?: string;
  /** Cluster that took it. */
  readonly cluster: string;
  /** Another group served in place of the chosen one: one of its fallbacks, or the default group. */
  readonly fallback?: boolean;
  /** How it came to the cluster, a sentence each; absent where the cluster is one of the chosen group. */
  readonly steps?: readonly string[];
  readonly attempts?: readonly FailedAttempt[];
  /** What it waited for before it was admitted, and how long; absent where it did not wait. */
  readonly admission?: string;
  /** The gateway's own id under which it waited; absent where it did not wait for long. */
  readonly queuedAs?: string;
  /** Absent where there were no rules. */
  readonly rules?: readonly RuleTrace[];
}

/** The same as it is kept with the query in the history. */
export interface StoredDecision extends Omit<QueryDecision, 'rules'> {
  readonly rules?: StoredTrace;
}
