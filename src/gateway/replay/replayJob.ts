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
