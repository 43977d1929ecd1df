import { MutationCache, QueryClient } from '@tanstack/react-query';
import { csrf, pendingHeaderName } from '../app/gateway.ts';
import type { ErrorFacts, FieldOwner, PlacedProblem } from './types.ts';

interface CallOptions {
  /** POST if there is a body or by default, as the calls under /webapp expect. */
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly body?: unknown;
  /** Cancels the call; provided by TanStack Query. */
  readonly signal?: AbortSignal;
}

export interface ApiResponse<T> {
  readonly data: T;
  /** Pending effect of a change, e.g. `database`; null if it is missing. */
  readonly pending: string | null;
  /** Texts of `Warning` headers: the call succeeded, but the next one should fix something. */
  readonly warnings: readonly string[];
}

/** Timeout of a call, in milliseconds. */
const TIMEOUT_MS = 30_000;

type Listener = () => void;
const sessionEnded = new Set<Listener>();

/** Registers a listener for calls that were rejected because no user is logged in (any more). Returns its removal. */
export function onSessionEnded(listener: Listener): Listener {
  sessionEnded.add(listener);
  return () => void sessionEnded.delete(listener);
}

/**
 * Calls the gateway and returns `data` of the envelope, or the whole body without an envelope.
 * @param path with its leading slash, e.g. `/webapp/getAllBackends`
 * @throws ApiError for every failure; an aborted signal throws its reason instead
 */
export async function call<T>(path: string, options: CallOptions = {}): Promise<T> {
  return (await callWhole<T>(path, options)).data;
}

/** As {@link call}, with values of the response's headers. */
export async function callWhole<T>(path: string, options: CallOptions = {}): Promise<ApiResponse<T>> {
  const { method = 'POST', body, signal } = options;
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  let response: Response;
  let text: string;
  try {
    response = await fetch(path, {
      method,
      headers: headersOf(method, body),
      body: body === undefined ? null : JSON.stringify(body),
      credentials: 'same-origin',
      redirect: 'error',
      signal: signal === undefined ? deadline : AbortSignal.any([signal, deadline]),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const why = deadline.aborted ? `did not answer within ${TIMEOUT_MS / 1000} s` : 'cannot be reached';
    throw new ApiError(0, 'EG_AWAY', `The gateway ${why}.`);
  }
  const parsed = parse(text);
  if (!response.ok) {
    const error = errorOf(response.status, parsed, response.headers.get('Retry-After'));
    if (response.status === 401 && path !== '/login') for (const listener of sessionEnded) listener();
    throw error;
  }
  return {
    data: (isEnvelope(parsed) ? parsed.data : parsed) as T,
    pending: response.headers.get(pendingHeaderName),
    warnings: warningsOf(response.headers.get('Warning')),
  };
}

function headersOf(method: string, body: unknown): Record<string, string> {
  const token = method === 'GET' ? null : csrfToken();
  return {
    Accept: 'application/json',
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...(token === null ? {} : { [csrf.header]: token }),
  };
}

/** The session's token from its cookie; null without a session. */
function csrfToken(): string | null {
  const cookies = new Map(document.cookie.split('; ').map((pair) => pair.split('=', 2) as [string, string]));
  for (const name of csrf.cookies) {
    const value = cookies.get(name);
    if (value !== undefined && value !== '') return value;
  }
  return null;
}

function parse(text: string): unknown {
  try {
    return text === '' ? undefined : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Calls under /webapp and logins wrap their response: `{code, msg, data}`. */
function isEnvelope(value: unknown): value is { data?: unknown } {
  return typeof value === 'object' && value !== null && 'code' in value && 'msg' in value;
}

/** The quoted texts of `299 - "text"` entries (RFC 7234 §5.5). */
function warningsOf(header: string | null): readonly string[] {
  return [...(header ?? '').matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text = '']) => text.replaceAll(/\\(.)/g, '$1'));
}

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
function errorOf(status: number, body: unknown, retryAfter: string | null = null): ApiError {
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

/**
 * Returns messages of an error by field of a form, with their positions if known. Empty if the error names no field, or
 * if the field is correct but owned by another manager.
 * @param isField true for fields of the form, without the prefix `data.` of web application calls
 */
export function mistakesOf(error: unknown, isField: (field: string) => boolean): Readonly<Record<string, string>> {
  if (!(error instanceof ApiError) || error.code === 'EG_FIELD_OWNED') return {};
  const single = error.field === undefined ? [] : [{ field: error.field, message: error.message }];
  const messages: Record<string, string> = {};
  for (const problem of error.problems.length > 0 ? error.problems : single) {
    const field = problem.field.replace(/^data\./, '');
    if (!isField(field)) continue;
    const place = 'line' in problem ? `line ${problem.line}, column ${problem.column}: ` : '';
    const before = messages[field];
    messages[field] = `${before === undefined ? '' : `${before}; `}${place}${problem.message}`;
  }
  return messages;
}

/** Offset of a position in a text; line and column count from 1. Beyond the text: its end. */
export function offsetOf(text: string, line: number, column: number): number {
  const lines = text.split('\n').slice(0, line - 1);
  const start = lines.reduce((sum, each) => sum + each.length + 1, 0);
  return Math.min(start + column - 1, text.length);
}

/** True if the object of a call does not exist. */
export function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/**
 * Polling interval of data without events: counts of queries, growing lists. The event stream (live.ts) reports changes
 * by others. With it every page stays below 18 requests a minute.
 */
export const SLOW_MS = 20_000;

export const USER = ['session', 'user'];

/** Responses of the gateway, shared by all pages: kept during a refetch, refetched only while the page is visible. */
export function createQueryClient(): QueryClient {
  const client: QueryClient = new QueryClient({
    mutationCache: new MutationCache({
      // A role was removed meanwhile: the pages immediately show what the user may still do.
      onError: (error) => {
        if (error instanceof ApiError && error.status === 403) void client.invalidateQueries({ queryKey: USER });
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 500,
        retry: (failures, error) => failures < 1 && error instanceof ApiError && error.mayPass,
        refetchOnWindowFocus: true,
        // The browser's offline detection is wrong for a gateway on the same machine.
        networkMode: 'always',
      },
      mutations: { networkMode: 'always' },
    },
  });
  return client;
}
