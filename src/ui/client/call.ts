import { csrf, pendingHeaderName } from '../app/gateway.ts';
import { ApiError, errorOf } from './apiError.ts';

export interface CallOptions {
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
