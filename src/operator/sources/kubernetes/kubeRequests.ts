import { ApiException, type HttpMethod, type KubeConfig, RequestContext } from '@kubernetes/client-node';
import { type Dispatcher, request } from 'undici';
import { userAgent } from '../../../model/version.ts';
import { type ApiServerCalls, uncountedCalls } from './apiServerCalls.ts';

export interface KubeCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the server's address, its parts encoded, e.g. `/api/v1/namespaces/default/services`. */
  readonly path: string;
  /** Parameters; undefined ones are left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: object;
  /** Of the body: `application/json`, or the kind of patch. */
  readonly contentType?: string;
  /** Milliseconds after which it fails, its response included. */
  readonly timeoutMs: number;
}

/**
 * Calls of the API server with the access of a KubeConfig. The client library's generated calls do the same, but bring
 * 900 models of the whole Kubernetes API, which take 50 MB of memory, and copy each response into them.
 */
export class KubeRequests {
  readonly #config: KubeConfig;
  readonly #calls: ApiServerCalls;

  /** @param calls takes note of each call */
  constructor(config: KubeConfig, calls: ApiServerCalls = uncountedCalls) {
    this.#config = config;
    this.#calls = calls;
  }

  /**
   * The response's JSON.
   * @throws ApiException for a response that is no success, with its text as body; otherwise what the connection failed
   * of
   */
  async send<Answer>(call: KubeCall): Promise<Answer> {
    const server = this.#config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error('the kubeconfig has no current cluster');
    const { method, path, query = {}, body, contentType = 'application/json', timeoutMs } = call;
    const context = new RequestContext(`${server.replace(/\/$/, '')}${path}`, method as HttpMethod);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) context.setQueryParam(name, String(value));
    }
    context.setHeaderParam('Accept', 'application/json');
    context.setHeaderParam('User-Agent', userAgent);
    if (body !== undefined) context.setHeaderParam('Content-Type', contentType);
    await this.#config.applySecurityAuthentication(context);
    const { statusCode, text, retryAfter } = await this.#answer(method, timeoutMs, context, body);
    if (statusCode >= 200 && statusCode <= 299) return JSON.parse(text) as Answer;
    throw new ApiException(statusCode, `the API server answered ${statusCode}`, text, retryAfter);
  }

  async #answer(method: KubeCall['method'], timeoutMs: number, context: RequestContext, body: object | undefined) {
    let code: number | null = null;
    try {
      const answer = await answerWithin(timeoutMs, context, body);
      code = answer.statusCode;
      return answer;
    } finally {
      this.#calls.called(method, code);
    }
  }
}

async function answerWithin(
  timeoutMs: number,
  context: RequestContext,
  body: object | undefined,
): Promise<{
  readonly statusCode: number;
  readonly text: string;
  /** The header `retry-after`, where there is one. */
  readonly retryAfter: Record<string, string>;
}> {
  const controller = new AbortController();
  // Not AbortSignal.timeout: thousands of them would stay until their time is over.
  const timer = setTimeout(() => controller.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  const dispatcher = context.getDispatcher() as Dispatcher | undefined;
  try {
    const answer = await request(context.getUrl(), {
      method: context.getHttpMethod() as Dispatcher.HttpMethod,
      headers: context.getHeaders(),
      signal: controller.signal,
      ...(dispatcher === undefined ? {} : { dispatcher }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { 'retry-after': value } = answer.headers;
    const retryAfter: Record<string, string> = typeof value === 'string' ? { 'retry-after': value } : {};
    return { statusCode: answer.statusCode, text: await answer.body.text(), retryAfter };
  } finally {
    clearTimeout(timer);
  }
}

export function kubePath(...parts: readonly string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}
