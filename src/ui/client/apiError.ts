import type { ErrorFacts, FieldOwner, PlacedProblem } from './types.ts';

/** Details of an error in addition to its code and message. */
interface Details extends Pick<ErrorFacts, 'field' | 'owners' | 'problems'> {
  readonly retryAfterSeconds?: number;
}

/** A response that is not a success, or no response. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status; 0 if there was no response. */
  readonly status: number;
  /** Code of the gateway's catalogue (docs/errors.md), e.g. `EG_FIELD_OWNED`; `EG_AWAY` if there was no response. */
  readonly code: string;
  /** Path of the field that is wrong, e.g. `data.softMemoryLimit`. */
  readonly field: string | undefined;
  /** Owners of fields that a change would set (`EG_FIELD_OWNED`). */
  readonly owners: readonly FieldOwner[];
  readonly problems: readonly PlacedProblem[];
  /** Retry delay in seconds (`Retry-After`); undefined if the response has none. */
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, code: string, message: string, facts: Details = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = facts.field;
    this.owners = facts.owners ?? [];
    this.problems = facts.problems ?? [];
    this.retryAfterSeconds = facts.retryAfterSeconds;
  }

  /** True if a retry may succeed: there was no response, or a dependency of the gateway is unavailable. */
  get mayPass(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503;
  }
}

/**
 * Returns the error of a response: the gateway's body in either of its forms, else a text for the status.
 * @param retryAfter header `Retry-After`; the gateway sends seconds, other values are ignored
 */
export function errorOf(status: number, body: unknown, retryAfter: string | null = null): ApiError {
  const { error, msg } = (body ?? {}) as { readonly error?: Partial<ErrorFacts>; readonly msg?: string };
  const message = error?.message ?? msg ?? `The gateway answered ${status}.`;
  const wait = retryAfter !== null && /^\d{1,5}$/.test(retryAfter) ? { retryAfterSeconds: Number(retryAfter) } : {};
  return new ApiError(status, error?.code ?? `HTTP_${status}`, message, { ...error, ...wait });
}

/** Returns the message of any thrown value, with the retry time if the response has it. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ApiError) || error.retryAfterSeconds === undefined || /in \d+ s\.$/.test(message))
    return message;
  const trouble = message.replace(/(; try again (soon|shortly))?\.?$/, '');
  return `${trouble}; try again in ${error.retryAfterSeconds} s.`;
}
