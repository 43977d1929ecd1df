import { Pool } from 'undici';
import type { HttpClientSettings } from '../../config/httpClient.ts';
import type { Clock } from '../../model/clock.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { clusterConnector } from './clusterReads.ts';

/** Settings of the connections to a cluster; times in milliseconds. */
export type UpstreamOptions = HttpClientSettings & {
  /** Maximum size of a response's head in bytes. */
  readonly maxHeaderSize: number;
  readonly tls: ClusterTls;
};

/**
 * Idle time after which the pool of an address without a registered cluster is closed. Clients poll the running queries
 * of a deleted cluster far more often.
 */
const UNUSED_AFTER_MS = 600_000;

/** Maximum size of a response to a request of the gateway itself. */
const MAX_ASKED_BYTES = 65_536;

/** A cluster address with its connection pool. */
export class Upstream {
  readonly proxyTo: string;
  /** Path of `proxyTo` without trailing slash; nearly always empty. */
  readonly basePath: string;
  /** Host name, for `includeClusterHostInResponse`. */
  readonly hostname: string;
  readonly pool: Pool;
  readonly #limit: number;
  readonly #clock: Clock;
  /** Monotonic time since which all connection attempts failed, or null. */
  unreachableSince: number | null = null;
  /** Consecutive statement requests that failed or returned 5xx. */
  failuresInARow = 0;
  #inFlight = 0;
  #lastUsed: number;
  /** Monotonic time of the last response; 0 for none. */
  lastResponded = 0;

  constructor(proxyTo: string, url: URL, options: UpstreamOptions, clock: Clock) {
    this.proxyTo = proxyTo;
    this.basePath = url.pathname.replace(/\/+$/, '');
    this.hostname = url.hostname;
    this.#limit = options.maxConnectionsPerServer + options.maxRequestsQueuedPerDestination;
    this.#clock = clock;
    this.#lastUsed = clock.monotonic();
    this.pool = new Pool(url.origin, {
      connections: options.maxConnectionsPerServer,
      pipelining: 1,
      allowH2: false,
      connect: options.tls.connector(options.connectTimeout, clusterConnector),
      bodyTimeout: options.requestTimeout ?? 0,
      keepAliveTimeout: options.idleTimeout,
      maxHeaderSize: options.maxHeaderSize,
    });
  }

  /** Number of requests in the pool without a complete response. */
  get inFlight(): number {
    return this.#inFlight;
  }

  get overloaded(): boolean {
    return this.#inFlight >= this.#limit;
  }

  /** Records a request in the pool; call `requestEnded` once for each. */
  requestStarted(): void {
    this.#inFlight++;
    this.#lastUsed = this.#clock.monotonic();
  }

  requestEnded(): void {
    this.#inFlight--;
    this.#lastUsed = this.#clock.monotonic();
  }

  /**
   * Sends a request of the gateway itself, within a time limit in milliseconds.
   * @param path below `proxyTo`
   * @param headers by name, or names and values in turn
   * @returns the response; its text is null if it is too long
   * @throws what the connection throws
   */
  async ask(
    method: 'GET' | 'DELETE',
    path: string,
    headers: Readonly<Record<string, string>> | readonly string[],
    timeLimit: number,
  ): Promise<{ readonly status: number; readonly text: string | null }> {
    const late = () => new Error(`no answer within ${timeLimit} ms`);
    this.requestStarted();
    try {
      return await withTimeLimit(timeLimit, late, async (signal) => {
        const { statusCode: status, body } = await this.pool.request({
          ...{ path: this.basePath + path, method, headers: headers as Record<string, string>, signal },
          ...{ headersTimeout: timeLimit, bodyTimeout: timeLimit },
        });
        return { status, text: await limitedText(body, MAX_ASKED_BYTES) };
      });
    } finally {
      this.requestEnded();
    }
  }

  isUnusedSince(time: number): boolean {
    return this.#inFlight === 0 && this.#lastUsed <= time;
  }

  /** Records the result of a connection attempt. */
  noteReachable(reachable: boolean): void {
    if (reachable) {
      this.unreachableSince = null;
      this.lastResponded = this.#clock.monotonic();
    } else this.unreachableSince ??= this.#clock.monotonic();
  }

  /** Milliseconds for which all connection attempts failed; 0 while it is reachable. */
  unreachableFor(): number {
    return this.unreachableSince === null ? 0 : this.#clock.monotonic() - this.unreachableSince;
  }
}

/** The text of a body; null if it is longer than a number of bytes: its connection ends then. */
export async function limitedText(body: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

export class Upstreams {
  readonly #options: UpstreamOptions;
  readonly #clock: Clock;
  readonly #upstreams = new Map<string, Upstream>();

  constructor(options: UpstreamOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** The upstream of a `proxyTo`; null if that is not an HTTP URL (an external row). */
  get(proxyTo: string): Upstream | null {
    let upstream = this.#upstreams.get(proxyTo);
    if (upstream === undefined) {
      if (!URL.canParse(proxyTo)) return null;
      const url = new URL(proxyTo);
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return null;
      upstream = new Upstream(proxyTo, url, this.#options, this.#clock);
      this.#upstreams.set(proxyTo, upstream);
    }
    return upstream;
  }

  /** The existing upstream of a `proxyTo`. */
  peek(proxyTo: string): Upstream | undefined {
    return this.#upstreams.get(proxyTo);
  }

  get inFlight(): number {
    let sum = 0;
    for (const upstream of this.#upstreams.values()) sum += upstream.inFlight;
    return sum;
  }

  /**
   * Closes pools without a request for ten minutes and without a registered cluster.
   * @param registered `proxyTo` of the registered clusters
   */
  sweep(registered: ReadonlySet<string>): void {
    const before = this.#clock.monotonic() - UNUSED_AFTER_MS;
    for (const [proxyTo, upstream] of this.#upstreams) {
      if (registered.has(proxyTo) || !upstream.isUnusedSince(before)) continue;
      this.#upstreams.delete(proxyTo);
      void upstream.pool.close().catch(() => undefined);
    }
  }

  async destroy(): Promise<void> {
    const pools = [...this.#upstreams.values()].map((upstream) => upstream.pool.destroy());
    this.#upstreams.clear();
    await Promise.allSettled(pools);
  }
}

export type ClusterErrorType = 'connect' | 'reset' | 'timeout' | 'protocol';

/** A failure between gateway and cluster, as text and for the metrics. */
export interface ClusterError {
  readonly type: ClusterErrorType;
  /** Text for log, trace and rejections: `connection refused`. */
  readonly reason: string;
}

const words: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not resolved',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'connection timed out',
  UND_ERR_CONNECT_TIMEOUT: 'connection timed out',
  UND_ERR_SOCKET: 'connection closed',
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'answer stalled',
};

export function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : '';
}

/**
 * Classifies the failure of a request to a cluster.
 * @param isSent true if the request was written to a connection
 */
export function classify(error: Error, isSent: boolean): ClusterError {
  const code = codeOf(error);
  const reason = words[code] ?? (code === '' ? error.message : `${error.message} (${code})`);
  if (!isSent) return { type: 'connect', reason };
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') return { type: 'timeout', reason };
  return { type: isReset(error) ? 'reset' : 'protocol', reason };
}

/** True if the connection broke, as opposed to a timeout or a response that is not HTTP. */
export function isReset(error: Error): boolean {
  return ['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE', 'ECONNABORTED'].includes(codeOf(error));
}

/** True if the head of the cluster's response exceeds the limit: a retry would fail too. */
export function isHeadTooLarge(error: Error): boolean {
  return codeOf(error) === 'UND_ERR_HEADERS_OVERFLOW';
}

/** True if the request itself could not be written: a retry at another cluster would fail too. */
export function isOwnFault(error: Error): boolean {
  const code = codeOf(error);
  return code === 'UND_ERR_INVALID_ARG' || code === 'UND_ERR_NOT_SUPPORTED' || code.startsWith('UND_ERR_REQ_');
}
