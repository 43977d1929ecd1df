import type { RawHeaders } from '../model/rawHeaders.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { QueryProperties } from '../sql/queryProperties.ts';

/** A request as rules see it: plain values, no I/O. Header names in lower case, as Node gives them. */
export interface RuleRequest {
  readonly method: string;
  /** Path as sent, without the query string. */
  readonly path: string;
  /** Query string as sent, without `?`; null when there is none. */
  readonly query: string | null;
  /** All header lines in order: names as sent and values in turn. */
  readonly headers: RawHeaders;
  readonly scheme: 'http' | 'https';
  /** Host the client named, without port. */
  readonly serverName: string;
  readonly serverPort: number;
  /** Address of the client, after trusted proxies. */
  readonly remoteAddr: string;
  readonly remoteUser: string | null;
  /** Form parameters in the body count as parameters, as in a servlet; null when there is no such body. */
  readonly formBody: string | null;
  /** True for POSTs to a statement path: only these can be denied. */
  readonly isSubmission: boolean;
  /** Null while request analysis is off. */
  readonly user: RequestUser | null;
  /** Null while request analysis is off. */
  readonly queryProperties: QueryProperties | null;
}

/** What one rule did to a request, for the trace. */
export interface RuleTrace {
  readonly rule: string;
  /** `file` or `resource`. */
  readonly origin: 'file' | 'resource';
  readonly priority: number;
  readonly outcome: 'fired' | 'not-matched' | 'failed' | 'denied' | 'skipped';
  /** What it put into `result`; absent when nothing. */
  readonly put?: Readonly<Record<string, string | null>>;
  /** The error text of a failed rule. */
  readonly error?: string;
}

/** What each rule did to a request; requests with the same values may share it, so it never changes. */
export interface DecisionTrace {
  /** One entry a rule, in the order in which rules are asked. */
  readonly rules: readonly RuleTrace[];
  /** The part that is kept with a query, as JSON (`StoredTrace`); null where there are no rules. */
  readonly stored: string | null;
}

/** The trace of a request that no rules were asked about. */
export const noTrace: DecisionTrace = Object.freeze({ rules: Object.freeze([]), stored: null });

/** What the rules decided for a request. */
export interface RuleDecision {
  /** Group that the rules set; null when none did (the default group is used then). */
  readonly routingGroup: string | null;
  /** Cluster that a rule pinned the request to (registry name); null for none. */
  readonly cluster: string | null;
  /** Name of the rule that set group or cluster; null when none did. */
  readonly rule: string | null;
  /** Set when a rule denies the submission: final. */
  readonly denied: { readonly rule: string; readonly message: string } | null;
  /**
   * Set when a rule failed at evaluation and `routingRules.onRuleError` is `reject`: the client gets an error naming
   * the rule. Always null with `skip`.
   */
  readonly rejected: { readonly rule: string; readonly message: string } | null;
  readonly onUnavailable: 'fallback' | 'reject';
  /** True where the header decides, as no rules could be loaded (docs/rules.md#when-something-is-wrong). */
  readonly useHeader: boolean;
  readonly trace: DecisionTrace;
}

/** A set of rules, compiled and immutable; swapped whole. */
export interface RuleSet {
  /** True when at least one rule reads user or query properties, so that the request has to be analysed. */
  readonly needsAnalysis: boolean;
  /** Stands for what its rules say; left out where that is not known. */
  readonly version?: string;
  /** Headers that rules read by a literal name, in lower case and sorted; left out where that is not known. */
  readonly headers?: readonly string[];
  decide(request: RuleRequest): RuleDecision;
  /** Its rules with the text of their conditions, in the order in which they are asked. */
  conditions?(): readonly RuleCondition[];
}

/** A rule with the text of its condition. */
export interface RuleCondition extends Pick<RuleTrace, 'rule' | 'origin'> {
  readonly condition: string;
}

/** Something that a condition reads of a request, with its value. */
export interface ReadValue {
  /** As in the condition, e.g. `request.getHeader("X-Engine-Source")`. */
  readonly expression: string;
  /** Text in quotes, `null`, a number, true or false, a list; cut at 200 characters. */
  readonly value: string;
  /** Where the value is from, e.g. `header:x-engine-source`, `user`, `queryType`; null where that is not known. */
  readonly source: string | null;
}

/** A rule's condition with what it read of a request. */
export interface ReadCondition extends RuleCondition {
  readonly values: readonly ReadValue[];
}
