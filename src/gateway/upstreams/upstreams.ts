import { Pool } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { clusterConnector } from './clusterReads.ts';

/** Limits of the connections to a cluster; times in milliseconds. */
export interface UpstreamOptions {
  readonly connections: number;
  /** Maximum number of requests that wait for a connection of one cluster; further ones are rejected. */
  readonly maxQueued: number;
  readonly connectTimeout: number;
  /** Timeout without data in the middle of a response; 0 for no limit. */
  readonly bodyTimeout: number;
  /** Keep-alive timeout, unless the cluster states one. */
  readonly idleTimeout: number;
  /** Maximum size of a response's head in bytes. */
  readonly maxHeaderSize: number;
  readonly tls: ClusterTls;
}

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
    this.#limit = options.connections + options.maxQueued;
    this.#clock = clock;
    this.#lastUsed = clock.monotonic();
    this.pool = new Pool(url.origin, {
      connections: options.connections,
      pipelining: 1,
      allowH2: false,
      connect: options.tls.connector(options.connectTimeout, clusterConnector),
      bodyTimeout: options.bodyTimeout,
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
        const chunks: Buffer[] = [];
        let size = 0;
        for await (const chunk of body) {
          size += (chunk as Buffer).length;
          // Leaving the loop ends the connection.
          if (size > MAX_ASKED_BYTES) return { status, text: null };
          chunks.push(chunk as Buffer);
        }
        return { status, text: Buffer.concat(chunks).toString('utf8') };
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
