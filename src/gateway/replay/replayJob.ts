import type { RuleTrace } from '../../rules/decision.ts';
import type { EditedRules } from '../../rules/replay/editedRules.ts';
import type { ReplayRange } from '../../store/historyReplay.ts';
import type { JdbcSettings } from '../../store/jdbcUrl.ts';

/** A replay of the history through rules as they are and as they would be, in a form that can be sent to another thread. */
export interface ReplayJob {
  readonly database: JdbcSettings;
  readonly range: ReplayRange;
  readonly rules: EditedRules;
  readonly settings: ReplaySettings;
  readonly bounds: ReplayBounds;
}

/** What of the gateway's settings decides about queries beside rules. */
export interface ReplaySettings {
  /** `protocol.productName`. */
  readonly productName: string;
  readonly defaultGroup: string;
  readonly statementPaths: readonly string[];
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  /** Bodies of this many characters and more are not analysed. */
  readonly maxAnalyzed: number;
  readonly clientsUseV2Format: boolean;
  /** `queryHistory.maxTextSize`, bytes. */
  readonly maxTextSize: number;
  /** Whether parts of texts are redacted (`queryHistory.redact`). */
  readonly redacts: boolean;
}

/** What a replay may take, and how much it returns. */
export interface ReplayBounds {
  /** Most queries, the newest first. */
  readonly queries: number;
  /** Milliseconds. */
  readonly time: number;
  /** Most entries of each list. */
  readonly top: number;
  readonly examples: number;
}

/** Where a query goes, or what becomes of it. */
export interface ReplayTarget {
  /**
   * `group`, `cluster` (a rule pins it), `denied`, `refused` (a rule failed, `onRuleError: reject`), `bound` (to the cluster of its
   * transaction, or of the query that it kills), or `uncertain`: one of several, as a rule could not be replayed.
   */
  readonly kind: 'group' | 'cluster' | 'denied' | 'refused' | 'bound' | 'uncertain';
  /** Of the group or the cluster; null for the others. */
  readonly name: string | null;
}

/** Queries that move from one target to another. */
export interface ReplayedMove {
  readonly from: ReplayTarget;
  readonly to: ReplayTarget;
  readonly queries: number;
}

/** Queries of a user or a source. */
export interface ReplayedShare {
  /** Null: the queries have none. */
  readonly name: string | null;
  readonly queries: number;
  readonly moved: number;
  readonly unknown: number;
}

/** A query that moves. */
export interface ReplayedExample {
  readonly queryId: string;
  readonly user: string | null;
  readonly source: string | null;
  /** Milliseconds since 1970. */
  readonly created: number;
  /** Start of its text. */
  readonly queryText: string;
  readonly from: ReplayTarget;
  readonly to: ReplayTarget;
  /** What the rules do now; of many rules those that do something, and those that are edited. */
  readonly before: readonly RuleTrace[];
  readonly after: readonly RuleTrace[];
  /** Rules that could not be replayed; the query moves whichever way they come out, and the traces show one of them. */
  readonly assumed: readonly string[];
}

/** A rule that could not be replayed for some queries. */
export interface UnreplayedCount {
  readonly rule: string;
  /** What it reads that the history does not hold. */
  readonly reads: readonly string[];
  /** Queries for which it was asked and could not be replayed. */
  readonly queries: number;
  /** Those of them of which it is unknown whether they move. */
  readonly unknown: number;
}

/** What a change of rules does to the queries of a range. */
export interface ReplayReport {
  /** Queries that were looked at. */
  readonly queries: number;
  readonly unmoved: number;
  readonly moved: number;
  /** Whether they move depends on what the history does not hold. */
  readonly unknown: number;
  /** Why not all queries of the range were looked at; null: they were. */
  readonly cutBy: 'queries' | 'time' | null;
  /** Milliseconds since 1970 of the oldest query that was looked at; null for none. */
  readonly oldest: number | null;
  readonly moves: readonly ReplayedMove[];
  readonly users: readonly ReplayedShare[];
  readonly sources: readonly ReplayedShare[];
  readonly unreplayed: readonly UnreplayedCount[];
  readonly examples: readonly ReplayedExample[];
  /** Queries of which it is unknown whether they move, a few. */
  readonly unknownExamples: readonly string[];
  readonly milliseconds: number;
}
