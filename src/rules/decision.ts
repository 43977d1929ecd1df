import type { HeaderFields, RawHeaders } from '../model/http.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { QueryProperties } from '../sql/queryProperties.ts';

/** A request for rules: plain values, no I/O. Header names in lower case, as Node provides them. */
export interface RuleRequest {
  readonly method: string;
  readonly path: string;
  /** Query string as sent, without `?`; null if missing. */
  readonly query: string | null;
  /** All header lines in order: names as sent and values in turn. */
  readonly headers: RawHeaders;
  /** By name, if read before. */
  readonly fields?: HeaderFields;
  readonly scheme: 'http' | 'https';
  /** Host the client named, without port. */
  readonly serverName: string;
  readonly serverPort: number;
  /** Address of the client, after trusted proxies. */
  readonly remoteAddr: string;
  readonly remoteUser: string | null;
  /** Form parameters in the body count as parameters, as in a servlet; null without such a body. */
  readonly formBody: string | null;
  /** True for POSTs to a statement path: only these can be denied. */
  readonly isSubmission: boolean;
  /** Null while request analysis is off. */
  readonly user: RequestUser | null;
  /** The user for tenants, also while request analysis is off; absent or null: unknown. */
  readonly sender?: RequestUser | null;
  /** Null while request analysis is off. */
  readonly queryProperties: QueryProperties | null;
  /** Of recorded requests only: value of a header's first line, null if it was missing. @throws UnknownRead */
  header?(lowerCaseName: string): string | null;
  /** Of recorded requests only: true if reading a source (`requestValues.ts`) would throw. */
  lacks?(source: string): boolean;
}

export interface RuleTrace {
  readonly rule: string;
  readonly origin: 'file' | 'resource';
  readonly priority: number;
  /** Absent in the first stage. */
  readonly stage?: 'tenant' | 'final';
  /** Tenant of a rule. */
  readonly tenant?: string;
  readonly outcome: 'fired' | 'not-matched' | 'failed' | 'denied' | 'skipped';
  /** Its entries in `result`; absent if empty. */
  readonly put?: Readonly<Record<string, string | null>>;
  readonly error?: string;
}

/** Effects of all rules on a request; requests with the same values may share it, so it never changes. */
export interface DecisionTrace {
  /** One entry per rule, in firing order. */
  readonly rules: readonly RuleTrace[];
  /** The part that is stored with a query, as JSON (`StoredTrace`); null without rules. */
  readonly stored: string | null;
}

export const noTrace: DecisionTrace = Object.freeze({ rules: Object.freeze([]), stored: null });

export interface RuleDecision {
  /** Group that the rules set; null: the default group. */
  readonly routingGroup: string | null;
  /** Cluster that a rule pinned the request to (registry name), or null. */
  readonly cluster: string | null;
  /** Name of the rule that set group or cluster, or null. */
  readonly rule: string | null;
  /** Set if a rule denies the submission: final. */
  readonly denied: { readonly rule: string; readonly message: string } | null;
  /**
   * Set if a rule failed at evaluation and `routingRules.onRuleError` is `reject`: the client gets an error naming the
   * rule. Always null with `skip`.
   */
  readonly rejected: { readonly rule: string; readonly message: string } | null;
  readonly onUnavailable: 'fallback' | 'reject';
  /** True if the header decides, as no rules could be loaded (docs/rules.md#when-something-is-wrong). */
  readonly useHeader: boolean;
  readonly trace: DecisionTrace;
}

export interface RuleSet {
  /** True if a rule reads user or query properties, so that the request must be analyzed. */
  readonly needsAnalysis: boolean;
  /** True if rules of tenants are asked, so that decisions depend on `RuleRequest.sender`. */
  readonly needsSender?: boolean;
  /** Hash of its rules; absent if unknown. */
  readonly version?: string;
  /** Headers that rules read by a literal name, in lower case and sorted; absent if unknown. */
  readonly headers?: readonly string[];
  decide(request: RuleRequest): RuleDecision;
  /** Conditions of its rules, in firing order. */
  conditions?(): readonly RuleCondition[];
}

export interface RuleCondition extends Pick<RuleTrace, 'rule' | 'origin'> {
  readonly condition: string;
}

export interface ReadValue {
  /** As in the condition, e.g. `request.getHeader("X-Engine-Source")`. */
  readonly expression: string;
  /** Text in quotes, `null`, a number, true or false, a list; cut at 200 characters. */
  readonly value: string;
  /** Source of the value, e.g. `header:x-engine-source`, `user`, `queryType`; null if unknown. */
  readonly source: string | null;
}

export interface ReadCondition extends RuleCondition {
  readonly values: readonly ReadValue[];
}
