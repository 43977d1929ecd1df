import type { RuleTrace } from '../../rules/decision.ts';
import type { EditedRules } from '../../rules/replay/recordedRequest.ts';
import type { ReplayRange } from '../../store/historyReplay.ts';
import type { JdbcSettings } from '../../store/jdbcUrl.ts';

/** A replay of the history with active and edited rules, in a form that can be sent to another thread. */
export interface ReplayJob {
  readonly database: JdbcSettings;
  readonly range: ReplayRange;
  readonly rules: EditedRules;
  readonly settings: ReplaySettings;
  readonly bounds: ReplayBounds;
}

/** Gateway settings that affect decisions in addition to rules. */
export interface ReplaySettings {
  /** `protocol.productName`. */
  readonly productName: string;
  readonly defaultGroup: string;
  readonly statementPaths: readonly string[];
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  /** Bodies of this many characters or more are not analyzed. */
  readonly maxAnalyzed: number;
  readonly clientsUseV2Format: boolean;
  /** `queryHistory.maxTextSize`, bytes. */
  readonly maxTextSize: number;
  /** True if parts of texts are redacted (`queryHistory.redact`). */
  readonly redacts: boolean;
}

export interface ReplayBounds {
  readonly queries: number;
  /** Milliseconds. */
  readonly time: number;
  readonly top: number;
  readonly examples: number;
}

/** Destination or rejection of a query. */
export interface ReplayTarget {
  /**
   * `group`, `cluster` (a rule pins it), `denied`, `refused` (a rule failed, `onRuleError: reject`), `bound` (to the
   * cluster of its transaction, or of the query that it kills), or `uncertain`: one of several, as a rule could not be
   * replayed.
   */
  readonly kind: 'group' | 'cluster' | 'denied' | 'refused' | 'bound' | 'uncertain';
  /** Name of the group or the cluster, or null. */
  readonly name: string | null;
}

/** Queries that move between two targets. */
export interface ReplayedMove {
  readonly from: ReplayTarget;
  readonly to: ReplayTarget;
  readonly queries: number;
}

export interface ReplayedShare {
  /** Null: unknown user or source. */
  readonly name: string | null;
  readonly queries: number;
  readonly moved: number;
  readonly unknown: number;
}

export interface ReplayedExample {
  readonly queryId: string;
  readonly user: string | null;
  readonly source: string | null;
  /** Milliseconds since 1970. */
  readonly created: number;
  readonly queryText: string;
  readonly from: ReplayTarget;
  readonly to: ReplayTarget;
  /** Effects of the active rules; of many rules those with an effect, and edited ones. */
  readonly before: readonly RuleTrace[];
  readonly after: readonly RuleTrace[];
  /** Rules that could not be replayed; the query moves with any outcome, and the traces show one of them. */
  readonly assumed: readonly string[];
}

/** A rule that could not be replayed for some queries. */
export interface UnreplayedCount {
  readonly rule: string;
  readonly reads: readonly string[];
  readonly queries: number;
  readonly unknown: number;
}

/** Effect of a rule change on the queries of a range. */
export interface ReplayReport {
  readonly queries: number;
  readonly unmoved: number;
  readonly moved: number;
  /** Queries with a result that depends on unrecorded values. */
  readonly unknown: number;
  /** Limit that ended the replay early; null: all queries were examined. */
  readonly cutBy: 'queries' | 'time' | null;
  /** Milliseconds since 1970 of the oldest examined query, or null. */
  readonly oldest: number | null;
  readonly moves: readonly ReplayedMove[];
  readonly users: readonly ReplayedShare[];
  readonly sources: readonly ReplayedShare[];
  readonly unreplayed: readonly UnreplayedCount[];
  readonly examples: readonly ReplayedExample[];
  readonly unknownExamples: readonly string[];
  readonly milliseconds: number;
}
