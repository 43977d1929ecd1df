import type { ErrorFacts, FieldOwner, PlacedProblem } from './types.ts';

/** Details of an error beside its code and message. */
interface Details extends Pick<ErrorFacts, 'field' | 'owners' | 'problems'> {
  readonly retryAfterSeconds?: number;
}

/** An answer of the gateway that is no success, or none at all. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status; 0 when nothing answered. */
  readonly status: number;
  /** Code of the gateway's catalogue (docs/errors.md), e.g. `EG_FIELD_OWNED`; `EG_AWAY` when nothing answered. */
  readonly code: string;
  /** Path of the field that is wrong, e.g. `data.softMemoryLimit`. */
  readonly field: string | undefined;
  /** Who owns fields that a change would set (`EG_FIELD_OWNED`). */
  readonly owners: readonly FieldOwner[];
  /** Every mistake of what was sent, where there may be several. */
  readonly problems: readonly PlacedProblem[];
  /** When asking again makes sense, in seconds (`Retry-After`); undefined where the answer does not say. */
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

  /** Whether asking again may help: nothing answered, or something behind the gateway is unavailable. */
  get mayPass(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503;
  }
}

/**
 * The error of an answer: the gateway's own body in either of its forms, else what the status says.
 * @param retryAfter header `Retry-After`; the gateway sends seconds, a date of something in between is left alone
 */
export function errorOf(status: number, body: unknown, retryAfter: string | null = null): ApiError {
  const { error, msg } = (body ?? {}) as { readonly error?: Partial<ErrorFacts>; readonly msg?: string };
  const message = error?.message ?? msg ?? `The gateway answered ${status}.`;
  const wait = retryAfter !== null && /^\d{1,5}$/.test(retryAfter) ? { retryAfterSeconds: Number(retryAfter) } : {};
  return new ApiError(status, error?.code ?? `HTTP_${status}`, message, { ...error, ...wait });
}

/** The message to show for anything that was thrown, with the time to try again where the answer has it. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ApiError) || error.retryAfterSeconds === undefined || /in \d+ s\.$/.test(message))
    return message;
  const trouble = message.replace(/(; try again (soon|shortly))?\.?$/, '');
  return `${trouble}; try again in ${error.retryAfterSeconds} s.`;
}
