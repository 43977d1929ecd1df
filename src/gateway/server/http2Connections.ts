import { constants, type Http2Session, type OutgoingHttpHeaders, type ServerHttp2Session } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { plainAddress } from '../headers/requestHeaders.ts';

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

  /** @param connections most concurrent connections over HTTP/2, all listeners together */
  constructor(connections: number, clock: Clock, logger: Logger, registry: Registry) {
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

/** Header lines of responses that are longer than this are added up. */
const LONG_LINE = 8_192;
/**
 * Length of such lines, all together, from which on a client may have to send more than HTTP/2 takes: one line of 64 kB, 144 kB
 * in all (docs/clients.md#large-headers).
 */
const LONG_LINES = 48 * 1024;

const sessions = new WeakMap<Http2Session, ClientSession>();

/** An HTTP/2 session of a client, and what is noted of it. */
export class ClientSession {
  /** The connection; Node's own stand-in for it breaks when the session ends. */
  readonly socket: TLSSocket;
  readonly #session: ServerHttp2Session;
  readonly #connections: Http2Connections;
  open = 0;
  #longLines = 0;

  constructor(session: ServerHttp2Session, socket: TLSSocket, connections: Http2Connections) {
    this.socket = socket;
    this.#session = session;
    this.#connections = connections;
    sessions.set(session, this);
    connections.add(this);
    session.once('close', () => connections.remove(this));
    session.on('stream', (stream) => {
      // It ended together with the session: nothing more comes of it.
      if (stream.destroyed) return;
      this.open++;
      stream.once('close', () => {
        this.open--;
      });
    });
    session.on('error', (error: NodeJS.ErrnoException) => {
      // The library's own errors have no detail: a header line that is too long is one of them.
      if (error.code === 'ERR_HTTP2_ERROR') connections.needsHttp1(socket, 'error of its HTTP/2 connection');
    });
    session.on('goaway', (code: number) => {
      if (code === constants.NGHTTP2_COMPRESSION_ERROR) {
        connections.needsHttp1(socket, 'error of its HTTP/2 connection');
      }
    });
  }

  /**
   * Notes the headers of a response. A prepared statement and a session property come in one, and are in every request
   * after it: before a client has to send more than HTTP/2 takes, it is asked to make another connection, over
   * HTTP/1.1.
   */
  noteResponse(fields: OutgoingHttpHeaders): void {
    for (const name in fields) {
      const value = fields[name];
      if (typeof value === 'string') this.#noteLine(value);
      else if (Array.isArray(value)) for (const each of value) this.#noteLine(each);
    }
  }

  closeIdle(): void {
    if (this.open === 0) this.#session.close();
  }

  /** Ends the session and its requests: they take memory that others need. */
  evict(): void {
    this.#session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // In the same turn of the event loop, more of its requests would be read.
    this.#session.destroy();
  }

  #noteLine(value: string): void {
    if (value.length < LONG_LINE) return;
    const before = this.#longLines;
    this.#longLines += value.length;
    if (before >= LONG_LINES || this.#longLines < LONG_LINES) return;
    // Running streams continue; further requests use another connection.
    if (this.#connections.needsHttp1(this.socket, 'long header lines in an answer')) this.#session.close();
  }
}

/** State of a session; undefined for a closed one. */
export function clientSessionOf(session: Http2Session | undefined): ClientSession | undefined {
  return session === undefined ? undefined : sessions.get(session);
}
