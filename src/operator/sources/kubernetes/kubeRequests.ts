import { ApiException, type HttpMethod, type KubeConfig, RequestContext } from '@kubernetes/client-node';
import { type Dispatcher, request } from 'undici';
import { withTimeLimit } from '../../../model/timeLimit.ts';
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
  readonly config: KubeConfig;
  /** Takes note of each call. */
  readonly calls: ApiServerCalls;

  constructor(config: KubeConfig, calls: ApiServerCalls = uncountedCalls) {
    this.config = config;
    this.calls = calls;
  }

  /**
   * The response's JSON.
   * @throws ApiException for a response that is no success, with its text as body; otherwise what the connection failed
   * of
   */
  async send<Result>(call: KubeCall): Promise<Result> {
    const server = this.config.getCurrentCluster()?.server;
    if (server === undefined) throw new Error('the kubeconfig has no current cluster');
    const { method, path, query = {}, body, contentType = 'application/json', timeoutMs } = call;
    const context = new RequestContext(`${server.replace(/\/$/, '')}${path}`, method as HttpMethod);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) context.setQueryParam(name, String(value));
    }
    context.setHeaderParam('Accept', 'application/json');
    context.setHeaderParam('User-Agent', userAgent);
    if (body !== undefined) context.setHeaderParam('Content-Type', contentType);
    await this.config.applySecurityAuthentication(context);
    const dispatcher = context.getDispatcher() as Dispatcher | undefined;
    let code: number | null = null;
    try {
      const late = () => new Error(`no answer within ${timeoutMs} ms`);
      return await withTimeLimit(timeoutMs, late, async (signal) => {
        const response = await request(context.getUrl(), {
          ...{ method, headers: context.getHeaders(), signal },
          ...(dispatcher === undefined ? {} : { dispatcher }),
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        code = response.statusCode;
        const text = await response.body.text();
        if (code >= 200 && code <= 299) return JSON.parse(text) as Result;
        const { 'retry-after': value } = response.headers;
        const retryAfter: Record<string, string> = typeof value === 'string' ? { 'retry-after': value } : {};
        throw new ApiException(code, `the API server answered ${code}`, text, retryAfter);
      });
    } finally {
      this.calls.called(method, code);
    }
  }
}

export function kubePath(...parts: readonly string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join('');
}
