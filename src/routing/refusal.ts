/** Reason of a rejection by the gateway; also the label of the metric. */
export type RefusalReason =
  | 'denied'
  | 'rule_failed'
  | 'quarantined'
  | 'external_errors'
  | 'no_cluster'
  | 'pending'
  | 'unknown_query'
  | 'undecided_query'
  | 'unknown_prefix'
  | 'unknown_transaction'
  | 'undecided_transaction'
  | 'owner_gone'
  | 'ownership_conflict'
  | 'overloaded'
  | 'queue_full'
  | 'queue_timeout'
  | 'queue_dropped'
  | 'queue_lost'
  | 'queue_unavailable'
  | 'stopping'
  | 'starting'
  | 'answer_head_too_large'
  | 'body_too_large'
  | 'request_memory'
  | 'dot_segments'
  | 'loop'
  | 'header_conflict'
  | 'client_certificate'
  | 'user_mapping'
  | 'engine_pages'
  | 'method';

/** A rejection, independent of the protocol. */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly message: string;
  /** The query of a follow-up; null for submissions. */
  readonly queryId: string | null;
  /** Methods that the path supports, for reason `method`; default: all proxied methods. */
  readonly allow?: string;
  /** Messages that are sent unchanged in an HTTP response: a JSON array. */
  readonly list?: readonly string[];
}

export function toRefusal(reason: RefusalReason, message: string, queryId: string | null = null): Refusal {
  return { reason, message, queryId };
}

export interface PlainResponse {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string;
}

interface RefusalForm {
  readonly status: number;
  /** Error of the engines' catalogue of standard errors; null if only an HTTP error makes clients retry. */
  readonly engine: {
    readonly code: number;
    readonly name: string;
    readonly type: 'USER_ERROR' | 'INTERNAL_ERROR' | 'INSUFFICIENT_RESOURCES';
  } | null;
  readonly retryAfterSeconds?: number;
}

const userError = (code: number, name: string) => ({ code, name, type: 'USER_ERROR' as const });
const internalError = (code: number, name: string) => ({
  code: 0x1_0000 + code,
  name,
  type: 'INTERNAL_ERROR' as const,
});
const insufficient = (code: number, name: string) => ({
  code: 0x2_0000 + code,
  name,
  type: 'INSUFFICIENT_RESOURCES' as const,
});

/** One line per reason; real clients retry a 503 by themselves, and show a protocol error. */
const forms: Readonly<Record<RefusalReason, RefusalForm>> = {
  denied: { status: 403, engine: userError(4, 'PERMISSION_DENIED') },
  quarantined: { status: 403, engine: userError(31, 'QUERY_REJECTED') },
  rule_failed: { status: 500, engine: userError(0, 'GENERIC_USER_ERROR') },
  external_errors: { status: 400, engine: userError(0, 'GENERIC_USER_ERROR') },
  no_cluster: { status: 503, engine: internalError(5, 'NO_NODES_AVAILABLE'), retryAfterSeconds: 5 },
  pending: { status: 503, engine: null, retryAfterSeconds: 1 },
  unknown_query: { status: 404, engine: userError(5, 'NOT_FOUND') },
  undecided_query: { status: 503, engine: null, retryAfterSeconds: 1 },
  unknown_prefix: { status: 404, engine: userError(5, 'NOT_FOUND') },
  unknown_transaction: { status: 404, engine: userError(20, 'UNKNOWN_TRANSACTION') },
  undecided_transaction: { status: 503, engine: null, retryAfterSeconds: 1 },
  owner_gone: { status: 404, engine: internalError(22, 'REMOTE_HOST_GONE') },
  ownership_conflict: { status: 502, engine: internalError(0, 'GENERIC_INTERNAL_ERROR') },
  overloaded: { status: 503, engine: null, retryAfterSeconds: 1 },
  queue_full: { status: 503, engine: insufficient(2, 'QUERY_QUEUE_FULL'), retryAfterSeconds: 5 },
  queue_timeout: { status: 504, engine: insufficient(3, 'EXCEEDED_TIME_LIMIT') },
  queue_dropped: { status: 410, engine: userError(38, 'ADMINISTRATIVELY_KILLED') },
  queue_lost: { status: 500, engine: internalError(0, 'GENERIC_INTERNAL_ERROR') },
  queue_unavailable: { status: 503, engine: null, retryAfterSeconds: 1 },
  stopping: { status: 503, engine: null, retryAfterSeconds: 1 },
  starting: { status: 503, engine: null, retryAfterSeconds: 1 },
  answer_head_too_large: { status: 500, engine: internalError(0, 'GENERIC_INTERNAL_ERROR') },
  body_too_large: { status: 413, engine: null },
  request_memory: { status: 503, engine: null, retryAfterSeconds: 1 },
  dot_segments: { status: 400, engine: null },
  loop: { status: 508, engine: null },
  header_conflict: { status: 400, engine: null },
  client_certificate: { status: 401, engine: null },
  user_mapping: { status: 403, engine: userError(4, 'PERMISSION_DENIED') },
  engine_pages: { status: 404, engine: null },
  method: { status: 405, engine: null },
};

/** The protocol error that clients see for a rejection; null if they retry the request instead. */
export function refusalError(reason: RefusalReason): RefusalForm['engine'] {
  return forms[reason].engine;
}

/** Methods of proxied paths, for `Allow` (docs/compatibility.md#proxied-paths). */
export const ALLOWED_METHODS = 'GET, HEAD, POST, PUT, DELETE, OPTIONS';

/** Form of rejections. */
export interface RefusalStyle {
  readonly statementPath: boolean;
  /** `routing.statementErrors` */
  readonly statementErrors: 'protocol' | 'http';
  /** Base of the gateway's URL as the client named it, for `infoUri`; e.g. `http://gw:8080`. */
  readonly baseUrl: string;
  /** Id of the results object if the rejection names no query. */
  readonly fallbackId: string;
}

/**
 * Renders a rejection for the client's protocol (docs/protocol.md#refusals): on statement paths HTTP 200 with a
 * QueryResults object that contains `error` and no `nextUri`; else text/plain with the HTTP status.
 */
export function renderRefusal(refusal: Refusal, style: RefusalStyle): PlainResponse {
  const form = forms[refusal.reason];
  if (style.statementPath && style.statementErrors === 'protocol' && form.engine !== null) {
    const id = refusal.queryId ?? style.fallbackId;
    return {
      status: 200,
      headers: ['content-type', 'application/json', 'cache-control', 'no-store'],
      body: JSON.stringify(queryResults(id, `${style.baseUrl}/ui/query.html?${id}`, refusal.message, form.engine)),
    };
  }
  if (refusal.list !== undefined) {
    const json = ['content-type', 'application/json', 'cache-control', 'no-store'];
    return { status: form.status, headers: json, body: JSON.stringify(refusal.list) };
  }
  const headers = ['content-type', 'text/plain; charset=utf-8', 'cache-control', 'no-store'];
  if (form.retryAfterSeconds !== undefined) headers.push('retry-after', String(form.retryAfterSeconds));
  if (refusal.reason === 'method') headers.push('allow', refusal.allow ?? ALLOWED_METHODS);
  return { status: form.status, headers, body: `${refusal.message}\n` };
}

/** The object that clients of the statement protocol read; contains every field that one of them requires. */
function queryResults(id: string, infoUri: string, message: string, error: NonNullable<RefusalForm['engine']>): object {
  return {
    id,
    infoUri,
    stats: {
      state: 'FAILED',
      queued: false,
      scheduled: false,
      nodes: 0,
      totalSplits: 0,
      queuedSplits: 0,
      runningSplits: 0,
      completedSplits: 0,
      cpuTimeMillis: 0,
      wallTimeMillis: 0,
      queuedTimeMillis: 0,
      elapsedTimeMillis: 0,
      processedRows: 0,
      processedBytes: 0,
      physicalInputBytes: 0,
      peakMemoryBytes: 0,
      spilledBytes: 0,
    },
    error: {
      message,
      errorCode: error.code,
      errorName: error.name,
      errorType: error.type,
      failureInfo: { type: `gateway.${error.name}`, message, suppressed: [], stack: [] },
    },
    warnings: [],
  };
}
