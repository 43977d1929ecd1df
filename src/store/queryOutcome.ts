/** How a query ended. */
export const queryStates = ['FINISHED', 'FAILED', 'CANCELLED', 'ABANDONED', 'REFUSED', 'DENIED', 'LOST'] as const;
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
 * or by the gateway that rejected it.
 */
export const certainty = { running: 0, guessed: 1, cancelled: 2, said: 3 } as const;

/** A row of `eg_query_outcomes`. Times in milliseconds since 1970; null if no one said. */
export interface QueryOutcomeRecord {
  readonly queryId: string;
  readonly created: number;
  readonly lastSeen: number;
  readonly state: QueryState | typeof RUNNING;
  readonly certainty: number;
  /** True if no cluster took it: `query_history` has no row of it then. */
  readonly refused: boolean;
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
  /** Bytes of bodies of its responses, as they went to the client, compressed ones as such. */
  readonly resultBytes: number | null;
  readonly pages: number | null;
  /** Start of the statement, of one that no cluster took; null for all others. */
  readonly queryText: string | null;
  /** Decision of a query without a cluster: `StoredDecision` as JSON. */
  readonly decision: string | null;
  /**
   * Groups of the user to count it by, the first `MAX_QUERY_GROUPS`, and to find one by that no cluster took
   * (`eg_query_groups`); left out for none or where no one said, and in what is read.
   */
  readonly groups?: readonly string[];
}

export type UnendedQuery = Pick<
  QueryOutcomeRecord,
  'created' | 'cluster' | 'routingGroup' | 'user' | 'source' | 'rule' | 'gatewayQueuedMillis'
>;
