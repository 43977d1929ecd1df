/** All errors of the API: code, HTTP status and meaning. docs/errors.md lists the same table (a test compares them). */
export const errorCatalog = {
  EG_MALFORMED: { status: 400, meaning: 'The request or one of its fields is not of the documented form.' },
  EG_UNAUTHENTICATED: { status: 401, meaning: 'The call needs authentication.' },
  EG_FORBIDDEN: { status: 403, meaning: 'The caller lacks the role that the call needs.' },
  EG_API_WRITES_DISABLED: { status: 403, meaning: '`resources.apiWrites` does not allow this change by REST.' },
  EG_NOT_FOUND: { status: 404, meaning: 'There is no such object or path.' },
  EG_METHOD_NOT_ALLOWED: { status: 405, meaning: 'The path exists, but not with this method.' },
  EG_CONFLICT: { status: 409, meaning: 'The change conflicts with what exists.' },
  EG_FIELD_OWNED: {
    status: 409,
    meaning: 'Another manager owns a field that the change would set; `?force=true` takes it over.',
  },
  EG_READ_ONLY: { status: 409, meaning: 'The file or source that holds the object cannot be written.' },
  EG_TOO_LARGE: { status: 413, meaning: 'The body is larger than the limit.' },
  EG_MEDIA_TYPE: { status: 415, meaning: 'The Content-Type is not accepted here.' },
  EG_UNKNOWN_HOST: {
    status: 421,
    meaning:
      'The gateway runs without authentication, and the name in `Host` is not known as its own (`server.allowedHosts`).',
  },
  EG_IMPOSSIBLE: { status: 422, meaning: 'Well-formed, but it cannot be done.' },
  EG_TOO_MANY_ATTEMPTS: { status: 429, meaning: 'Too many logins failed; `Retry-After` says how long to wait.' },
  EG_TOO_MANY_STREAMS: {
    status: 429,
    meaning: 'The caller, or the gateway, has as many event streams as are possible.',
  },
  EG_INTERNAL: { status: 500, meaning: 'A defect of the gateway; the log has the details under the same request id.' },
  EG_CLUSTER_FAILED: { status: 502, meaning: 'The cluster did not answer properly.' },
  EG_IDENTITY_UNAVAILABLE: {
    status: 503,
    meaning: 'What knows users (OpenID provider, LDAP server, Kubernetes API server) is unavailable.',
  },
  EG_SOURCE_UNAVAILABLE: {
    status: 503,
    meaning: 'The resource source (API server, directory) is unavailable; nothing was changed.',
  },
  EG_DATABASE_UNAVAILABLE: { status: 503, meaning: 'The database is unavailable; nothing was changed.' },
  EG_BUSY: {
    status: 503,
    meaning:
      'The gateway is short of memory, or bodies of other requests take all of `server.requestMemory`; send the call again.',
  },
  EG_NO_CLUSTER: { status: 503, meaning: 'No cluster of the routing group can take requests now.' },
} as const;

export type ErrorCode = keyof typeof errorCatalog;

/** Details of a GatewayError in addition to its code and message. */
export interface ErrorDetails {
  /** Path of the invalid field, e.g. `proxyTo` or `spec.healthCheck.interval`. */
  readonly field?: string;
  readonly retryAfterSeconds?: number;
  /** Owners of fields that the change would set (EG_FIELD_OWNED). */
  readonly owners?: readonly FieldOwner[];
  /** All mistakes of the input, if there may be several. */
  readonly problems?: readonly PlacedProblem[];
  readonly cause?: unknown;
}

export interface FieldOwner {
  /** Path of the field, e.g. `spec.routingGroup`. */
  readonly field: string;
  readonly manager: string;
}

/** An error with a stable code and a message for the caller: it names the problem and the fix. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly code: ErrorCode;
  readonly field: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly owners: readonly FieldOwner[] | undefined;
  readonly problems: readonly PlacedProblem[] | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.field = details.field;
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.owners = details.owners;
    this.problems = details.problems;
  }

  get status(): number {
    return errorCatalog[this.code].status;
  }

  /** The JSON body of the API's errors (docs/errors.md). */
  toBody(): { error: ErrorFacts } {
    const { code, message, field, owners, problems } = this;
    return {
      error: {
        code,
        message,
        ...(field === undefined ? {} : { field }),
        ...(owners === undefined ? {} : { owners }),
        ...(problems === undefined ? {} : { problems }),
      },
    };
  }
}

export interface ErrorFacts extends Pick<ErrorDetails, 'field' | 'owners' | 'problems'> {
  readonly code: ErrorCode;
  readonly message: string;
}

/** A mistake in user input: a value, not an exception. */
export interface Problem {
  /** Path of the field, e.g. `spec.proxyTo`; empty for the whole input. */
  readonly field: string;
  readonly message: string;
}

/** Joins problems to a sentence: `spec.proxyTo is required; spec.weight must be >= 0`. */
export function problemText(problems: readonly Problem[]): string {
  return problems.map(({ field, message }) => (field === '' ? message : `${field} ${message}`)).join('; ');
}

/** A mistake within a text, with its position. */
export interface PlacedProblem extends Problem {
  /** Line and column in the field's text, counted from 1; absent if the mistake has no position. */
  readonly line?: number;
  readonly column?: number;
}
