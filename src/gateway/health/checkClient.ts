import { Agent, request } from 'undici';
import { userAgent } from '../../model/version.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { classify } from '../upstreams/clusterError.ts';
import type { CheckCredentials, CheckResult } from './healthCheck.ts';

export interface CheckRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Path and query string below the cluster's URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Maximum size of a response, in bytes. */
  readonly maxBytes: number;
  /** Number of immediate retries after 502, 503 or 504. */
  readonly retries?: number;
}

/** A response of any status, or a description of the failure. */
export type CheckResponse =
  | {
      readonly ok: true;
      /** The request for messages, without its query string: `GET http://a:8080/v1/info`. */
      readonly endpoint: string;
      readonly status: number;
      readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
      readonly text: string;
    }
  | { readonly ok: false; readonly endpoint: string; readonly reason: string };

/** A successful response, or the result of the failed check. */
type ReadResponse =
  | { readonly ok: true; readonly endpoint: string; readonly text: string }
  | { readonly ok: false; readonly result: CheckResult };

const repeatable = [502, 503, 504];

/**
 * Sends requests of health checks: over separate connections, one per cluster, so that a busy cluster does not seem
 * unhealthy; never follows redirects, so that credentials stay there.
 */
export class CheckClient {
  readonly #agent: Agent;

  /** @param connectTimeout milliseconds */
  constructor(connectTimeout: number, tls: ClusterTls) {
    this.#agent = new Agent({
      connections: 1,
      allowH2: false,
      connect: tls.connector(connectTimeout),
      keepAliveTimeout: 1_000,
    });
  }

  /** Sends a request, with retries if it requests them. Never rejects. */
  async ask(proxyTo: string, question: CheckRequest, signal: AbortSignal): Promise<CheckResponse> {
    let response = await this.#once(proxyTo, question, signal);
    for (let left = question.retries ?? 0; left > 0 && response.ok && repeatable.includes(response.status); left--) {
      response = await this.#once(proxyTo, question, signal);
    }
    return response;
  }

  /** Requires status 200; any other makes the cluster UNHEALTHY, with the fix. */
  async read(
    proxyTo: string,
    question: CheckRequest,
    credentials: CheckCredentials | null,
    signal: AbortSignal,
  ): Promise<ReadResponse> {
    const response = await this.ask(proxyTo, question, signal);
    if (response.ok && response.status === 200) return { ok: true, endpoint: response.endpoint, text: response.text };
    const why = response.ok ? statusReason(response.status, credentials) : response.reason;
    return { ok: false, result: { health: 'UNHEALTHY', reason: `${response.endpoint}: ${why}` } };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #once(
    proxyTo: string,
    { method, path, headers, body, maxBytes }: CheckRequest,
    signal: AbortSignal,
  ): Promise<CheckResponse> {
    const url = urlOf(proxyTo, path);
    // Without the query string, and without credentials that a row of another gateway may have in its URL.
    const named = `${method} ${url === null ? path : `${url.origin}${url.pathname}`}`;
    const failed = (reason: string): CheckResponse => ({ ok: false, endpoint: named, reason });
    if (url === null) return failed('proxyTo is not an HTTP URL');
    try {
      const response = await request(`${url.origin}${url.pathname}${url.search}`, {
        method,
        dispatcher: this.#agent,
        signal,
        headers: { accept: 'application/json', 'user-agent': userAgent, ...headers },
        ...(body === undefined ? {} : { body }),
      });
      const chunks: Buffer[] = [];
      let size = 0;
      for await (const chunk of response.body) {
        size += (chunk as Buffer).length;
        if (size > maxBytes) return failed(`more than ${maxBytes} bytes`);
        chunks.push(chunk as Buffer);
      }
      const text = Buffer.concat(chunks).toString('utf8');
      return { ok: true, endpoint: named, status: response.statusCode, headers: response.headers, text };
    } catch (error) {
      if (signal.aborted) return failed('no answer in time');
      return failed(error instanceof Error ? classify(error, true).reason : String(error));
    }
  }
}

function urlOf(proxyTo: string, path: string): URL | null {
  const url = URL.parse(`${proxyTo}${path}`);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

/** Describes a status other than 200, with the fix. */
export function statusReason(status: number, credentials: CheckCredentials | null): string {
  if (credentials !== null && (status === 401 || status === 403)) {
    const what = status === 403 ? 'may not ask this' : 'or the way it logs in is refused';
    return `status ${status}: the user of health checks ${what}; fix ${credentials.from}`;
  }
  if (status >= 300 && status < 400) return `status ${status}, a redirect, which checks do not follow`;
  return `status ${status}`;
}

/** The object of a JSON text; null for anything else. */
export function jsonObject(text: string): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

/** `Authorization` of Basic authentication (RFC 7617). */
export function basicAuthorization({ username, password }: CheckCredentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`, 'utf8').toString('base64')}`;
}
