import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { plainAddress } from '../headers/trustedProxies.ts';
import type { ClientSession } from './clientSession.ts';

/** Settings that decide which connections may use HTTP/2. */
export interface Http2ConnectionsOptions {
  /** Most connections at once over HTTP/2, all listeners together. */
  readonly connections: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** Time for which an address is remembered after it was last needed. */
const HTTP1_MS = 3_600_000;
const MAX_HTTP1_ADDRESSES = 10_000;

/** Sessions with fewer requests are never ended for memory. */
const MANY_REQUESTS = 10;

/** Reason that a client gets HTTP/1.1 instead of HTTP/2: the limit of connections, or the client needs HTTP/1.1. */
type DeclineReason = 'limit' | 'client';

/** Reason that a client needs HTTP/1.1: its response headers were too long for HTTP/2, or it broke the protocol. */
export type Http1Need = 'long header lines in an answer' | 'error of its HTTP/2 connection';

/**
 * Decides which connections over TLS speak HTTP/2 (docs/serving.md#http2). A connection over HTTP/2 may hold many requests
 * and a head whose end has not come, so there is a limit of them; further clients speak HTTP/1.1. So do those whose header
 * lines are longer than the HTTP/2 library takes: they are recognised by their address.
 */
export class Http2Connections {
  readonly #limit: number;
  readonly #open = new Set<TLSSocket>();
  readonly #sessions = new Set<ClientSession>();
  /** Addresses of clients that need HTTP/1.1. */
  readonly #http1: LRUCache<string, true>;
  /** Addresses of clients over HTTP/2 that speak HTTP/1.1 as well; a socket that is closed has none any more. */
  readonly #addresses = new WeakMap<TLSSocket, string>();
  readonly #logger: Logger;
  readonly #declined: Counter<'reason'>;
  readonly #evicted: Counter;

  constructor({ connections, clock, logger, registry }: Http2ConnectionsOptions) {
    this.#limit = connections;
    this.#http1 = new LRUCache({
      ...growingTo(MAX_HTTP1_ADDRESSES),
      // Entries are stale after more than this time.
      ttl: HTTP1_MS - 1,
      ttlResolution: 0,
      updateAgeOnGet: true,
      perf: { now: () => clock.monotonic() },
    });
    this.#logger = logger;
    this.#declined = new Counter({
      name: 'engine_gateway_http2_declined_total',
      help: 'Connections that asked for HTTP/2 and were not given it: as many speak it as may (limit), or the client sends header lines that are too long for it (client).',
      labelNames: ['reason'],
      registers: [registry],
    });
    this.#evicted = new Counter({
      name: 'engine_gateway_http2_evicted_total',
      help: 'Connections over HTTP/2 that were ended because they had the most requests while memory was short.',
      registers: [registry],
    });
    this.#measure(registry);
  }

  /**
   * The protocol of a connection that is being made.
   * @param offered by the client, by ALPN (RFC 7301)
   * @returns undefined if it has to be rejected, as the client offers nothing else
   */
  choose(socket: TLSSocket, offered: readonly string[]): 'h2' | 'http/1.1' | undefined {
    const http1 = offered.includes('http/1.1') ? 'http/1.1' : undefined;
    if (!offered.includes('h2')) return http1;
    if (this.#open.size >= this.#limit) return this.#decline('limit', http1);
    // A client that speaks nothing else is better off with the limits of HTTP/2.
    if (http1 !== undefined) {
      const client = plainAddress(socket.remoteAddress);
      if (this.#http1.get(client) === true) return this.#decline('client', http1);
      this.#addresses.set(socket, client);
    }
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    return 'h2';
  }

  /**
   * Gives the client of a connection HTTP/1.1 alone from its next connection on.
   * @returns false where that cannot be, as the client speaks HTTP/2 alone
   */
  needsHttp1(socket: TLSSocket, reason: Http1Need): boolean {
    const client = this.#addresses.get(socket);
    if (client === undefined) return false;
    if (!this.#http1.has(client)) this.#logger.info({ client, reason }, 'client is offered HTTP/1.1 alone');
    this.#http1.set(client, true);
    return true;
  }

  add(session: ClientSession): void {
    this.#sessions.add(session);
  }

  remove(session: ClientSession): void {
    this.#sessions.delete(session);
  }

  closeIdle(): void {
    for (const session of this.#sessions) session.closeIdle();
  }

  /** Ends the sessions that have the most requests: half as many as the busiest one, or more. */
  evictBusiest(): void {
    let most = 0;
    for (const { open } of this.#sessions) most = Math.max(most, open);
    for (const session of this.#sessions) {
      if (session.open < Math.max(most / 2, MANY_REQUESTS)) continue;
      this.#sessions.delete(session);
      this.#evicted.inc();
      session.evict();
    }
  }

  #decline<Protocol>(reason: DeclineReason, protocol: Protocol): Protocol {
    this.#declined.inc({ reason });
    return protocol;
  }

  #measure(registry: Registry): void {
    const registers = [registry];
    const open: Gauge = new Gauge({
      name: 'engine_gateway_http2_connections',
      help: 'Connections of clients over HTTP/2.',
      registers,
      collect: () => open.set(this.#open.size),
    });
    const limit: Gauge = new Gauge({
      name: 'engine_gateway_http2_connections_limit',
      help: 'Connections of clients that may speak HTTP/2 at once (server.maxHttp2Connections).',
      registers,
      collect: () => limit.set(this.#limit),
    });
  }
}
