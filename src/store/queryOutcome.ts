/** How a query ended. `RETRIED`: another cluster continued it (docs/survival.md). */
export const queryStates = [
  ...(['FINISHED', 'FAILED', 'CANCELLED', 'ABANDONED', 'REFUSED', 'DENIED', 'LOST', 'RETRIED'] as const),
] as const;
export type QueryState = (typeof queryStates)[number];

/** States that a replica concludes from silence: the query may still run. */
export const guessedStates: readonly QueryState[] = ['ABANDONED', 'LOST'];

/**
 * Classes of queries that ended badly, as SQL conditions on `eg_query_outcomes`: one definition for pages, problems, and metrics
 * (docs/metrics.md#failed-queries). Every query is in one class at most.
 */
export const failureConditions = {
  failed: "(state = 'LOST' or (state = 'FAILED' and (error_type is null or error_type <> 'USER_ERROR')))",
  userError: "(state = 'FAILED' and error_type = 'USER_ERROR')",
  refused: "state = 'REFUSED'",
} as const;

/** True if a query failed because of its user, as `failureConditions.userError`. */
export function isUserError(state: QueryState, errorType: string | null): boolean {
  return state === 'FAILED' && errorType === 'USER_ERROR';
}

/** Of a row whose query is not over, as far as its replica knows. */
export const RUNNING = 'RUNNING';

/**
 * Confidence of an outcome: of two rows of a query the more reliable one wins. `said`: by the engine's last response,
 * or by the gateway that rejected it. `reported`: by an event of the cluster, which completes other rows only.
 */
export const certainty = { reported: -1, running: 0, guessed: 1, cancelled: 2, said: 3 } as const;

/** Digests and labels of a statement (docs/digests.md), and what its replay needs. */
export interface StatementColumns {
  /** Of its shape. */
  readonly digest: string;
  readonly exactDigest: string;
  readonly tool: string | null;
  readonly model: string | null;
  readonly dashboard: string | null;
  /** The shape, redacted; null if it was written lately. */
  readonly shapeText: string | null;
  /** `StoredReplay` as JSON. */
  readonly replay: string | null;
}

/** Inputs of a query's replay in addition to its text (docs/digests.md#replay). */
export interface StoredReplay {
  /** `cut` and `redacted`: text, statement or a header is not stored as it was sent. */
  readonly complete: 'yes' | 'cut' | 'redacted';
  /** Values by the suffix of the header, `Session` of `X-Trino-Session`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The statement that an EXECUTE runs. */
  readonly statement?: string;
}

/** A statement with columns that are computed when they are read first. */
export interface StatementFacts {
  readonly columns: StatementColumns;
  /** Notes the text that the history stores. */
  noteStored?(text: string): void;
}

/** Input of a query from a table. Null: not reported. */
export interface QueryInput {
  /** Catalog, schema and table, with points between them. */
  readonly table: string;
  readonly rows: number | null;
  readonly bytes: number | null;
}

/** A row of `eg_query_outcomes`. Times in milliseconds since 1970; null if no one said. */
export interface QueryOutcomeRecord {
  readonly queryId: string;
  readonly created: number;
  readonly lastSeen: number;
  readonly state: QueryState | typeof RUNNING;
  readonly certainty: number;
  /** True if no cluster took it: `query_history` has no row of it then. */
  readonly refused: boolean;
  /** True if it was not sent through the gateway: an event of its cluster reported it. */
  readonly bypassed?: boolean;
  readonly cluster: string | null;
  readonly routingGroup: string | null;
  readonly user: string | null;
  readonly source: string | null;
  /** Rule that decided the routing group, or that denied the query. */
  readonly rule: string | null;
  readonly errorName: string | null;
  readonly errorType: string | null;
  readonly errorCode: number | null;
  readonly errorMessage: string | null;
  /** From its creation to its end, by the engine's account; by the gateway's where that has none. */
  readonly elapsedMillis: number | null;
  /**
   * From its creation to the first response with rows, by the replica that passed it on first; null or left out if none
   * was seen.
   */
  readonly firstRowMillis?: number | null;
  readonly queuedMillis: number | null;
  readonly gatewayQueuedMillis: number | null;
  readonly cpuMillis: number | null;
  readonly processedRows: number | null;
  readonly processedBytes: number | null;
  readonly peakMemoryBytes: number | null;
  readonly physicalInputBytes?: number | null;
  readonly planningMillis?: number | null;
  readonly analysisMillis?: number | null;
  readonly spilledBytes?: number | null;
  /** Bytes of bodies of its responses, as they went to the client, compressed ones as such. */
  readonly resultBytes: number | null;
  readonly pages: number | null;
  /** Start of the statement, of one that no cluster took; null for all others. */
  readonly queryText: string | null;
  /** `QueryInput`s as JSON, of an event of its cluster. */
  readonly inputs?: string | null;
  /** Decision of a query without a cluster: `StoredDecision` as JSON. */
  readonly decision: string | null;
  /**
   * Groups of the user to count it by, the first `MAX_QUERY_GROUPS`, and to find one by that no cluster took
   * (`eg_query_groups`); left out for none or where no one said, and in what is read.
   */
  readonly groups?: readonly string[];
  /** Its statement, of which the following fields are; only in what is written. */
  readonly statement?: StatementFacts;
  readonly digest?: string | null;
  readonly exactDigest?: string | null;
  readonly tool?: string | null;
  readonly model?: string | null;
  readonly dashboard?: string | null;
}

export type UnendedQuery = Pick<
  QueryOutcomeRecord,
  'created' | 'cluster' | 'routingGroup' | 'user' | 'source' | 'rule' | 'gatewayQueuedMillis'
>;
