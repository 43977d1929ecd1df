import { Pool } from 'undici';
import type { Clock } from '../../model/clock.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { clusterConnector } from './clusterReads.ts';

/** Limits of the connections to a cluster; times in milliseconds. */
export interface UpstreamOptions {
  /** Most connections to one cluster. */
  readonly connections: number;
  /** Most requests that wait for a connection of one cluster; further ones are refused. */
  readonly maxQueued: number;
  readonly connectTimeout: number;
  /** Silence in the middle of an answer after which it counts as broken; 0 for no limit. */
  readonly bodyTimeout: number;
  /** Time after which an idle connection is closed, where the cluster does not say. */
  readonly idleTimeout: number;
  /** Largest head of an answer in bytes. */
  readonly maxHeaderSize: number;
  readonly tls: ClusterTls;
}

/**
 * Milliseconds without a request after which the pool of an address that no registered cluster has is closed. Clients poll
 * the running queries of a deleted cluster far more often.
 */
const UNUSED_AFTER_MS = 600_000;

/** One cluster address with its pool of connections. */
export class Upstream {
  readonly proxyTo: string;
  /** Path of `proxyTo` without trailing slash; nearly always empty. */
  readonly basePath: string;
  /** Host name, for `includeClusterHostInResponse`. */
  readonly hostname: string;
  readonly pool: Pool;
  readonly #limit: number;
  readonly #clock: Clock;
  /** Monotonic time since when every connection attempt failed; null while it is reachable. */
  unreachableSince: number | null = null;
  /** Statement requests in a row that failed or were answered 5xx. */
  failuresInARow = 0;
  #inFlight = 0;
  #lastUsed: number;
  /** Monotonic time of the last answer; 0 for none. */
  lastAnswered = 0;

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

  /** Requests given to the pool and not yet answered in full. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether no further request may wait here. */
  get overloaded(): boolean {
    return this.#inFlight >= this.#limit;
  }

  /** Notes that a request is given to the pool; `requestEnded` is called once for each. */
  requestStarted(): void {
    this.#inFlight++;
    this.#lastUsed = this.#clock.monotonic();
  }

  /** Notes that a request was answered in full or failed. */
  requestEnded(): void {
    this.#inFlight--;
    this.#lastUsed = this.#clock.monotonic();
  }

  /** Whether no request is in flight and none was since a monotonic time. */
  isUnusedSince(time: number): boolean {
    return this.#inFlight === 0 && this.#lastUsed <= time;
  }

  /** Notes that a connection could be made, or not. */
  noteReachable(reachable: boolean): void {
    if (reachable) {
      this.unreachableSince = null;
      this.lastAnswered = this.#clock.monotonic();
    } else this.unreachableSince ??= this.#clock.monotonic();
  }

  /** Milliseconds for which every connection attempt failed; 0 while it is reachable. */
  unreachableFor(): number {
    return this.unreachableSince === null ? 0 : this.#clock.monotonic() - this.unreachableSince;
  }
}

/** All cluster addresses that requests were sent to. */
export class Upstreams {
  readonly #options: UpstreamOptions;
  readonly #clock: Clock;
  readonly #upstreams = new Map<string, Upstream>();

  constructor(options: UpstreamOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** The upstream of a `proxyTo`; null when that is not an HTTP URL (a row written by others). */
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

  /** The upstream of a `proxyTo` that was used before. */
  peek(proxyTo: string): Upstream | undefined {
    return this.#upstreams.get(proxyTo);
  }

  /** Requests on their way to any cluster. */
  get inFlight(): number {
    let sum = 0;
    for (const upstream of this.#upstreams.values()) sum += upstream.inFlight;
    return sum;
  }

  /**
   * Closes the pools that had no request for ten minutes and that no registered cluster needs.
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

  /** Ends all connections at once. */
  async destroy(): Promise<void> {
    const pools = [...this.#upstreams.values()].map((upstream) => upstream.pool.destroy());
    this.#upstreams.clear();
    await Promise.allSettled(pools);
  }
}
