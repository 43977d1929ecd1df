import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  Http2ServerRequest as NodeRequest,
  Http2ServerResponse as NodeResponse,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { ReadableOptions } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import { UnreadChunks } from '../bodies/requestBodies.ts';
import { plainAddress } from '../headers/requestHeaders.ts';

/** Time for which an address is remembered after it was last needed. */
const HTTP1_MS = 3_600_000;
const MAX_HTTP1_ADDRESSES = 10_000;

/** Sessions with fewer requests are never ended for memory. */
const MANY_REQUESTS = 10;

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
  readonly sessions = new Set<ClientSession>();
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
    const open: Gauge = new Gauge({
      name: 'engine_gateway_http2_connections',
      help: 'Connections of clients over HTTP/2.',
      registers: [registry],
      collect: () => open.set(this.#open.size),
    });
    new Gauge({
      name: 'engine_gateway_http2_connections_limit',
      help: 'Connections of clients that may speak HTTP/2 at once (server.maxHttp2Connections).',
      registers: [registry],
    }).set(connections);
  }

  /**
   * The protocol of a connection that is being made.
   * @param offered by the client, by ALPN (RFC 7301)
   * @returns undefined if it has to be rejected, as the client offers nothing else
   */
  choose(socket: TLSSocket, offered: readonly string[]): 'h2' | 'http/1.1' | undefined {
    const http1 = offered.includes('http/1.1') ? 'http/1.1' : undefined;
    if (!offered.includes('h2')) return http1;
    if (this.#open.size >= this.#limit) {
      this.#declined.inc({ reason: 'limit' });
      return http1;
    }
    // A client that speaks nothing else is better off with the limits of HTTP/2.
    if (http1 !== undefined) {
      const client = plainAddress(socket.remoteAddress);
      if (this.#http1.get(client) === true) {
        this.#declined.inc({ reason: 'client' });
        return http1;
      }
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

  closeIdle(): void {
    for (const session of this.sessions) session.closeIdle();
  }

  /** Ends the sessions that have the most requests: half as many as the busiest one, or more. */
  evictBusiest(): void {
    let most = 0;
    for (const { open } of this.sessions) most = Math.max(most, open);
    for (const session of this.sessions) {
      if (session.open < Math.max(most / 2, MANY_REQUESTS)) continue;
      this.sessions.delete(session);
      this.#evicted.inc();
      session.evict();
    }
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
    connections.sessions.add(this);
    session.once('close', () => connections.sessions.delete(this));
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

/**
 * A request over HTTP/2 that reads like one over HTTP/1.1: no pseudo headers among its lines, `Host` for `:authority`,
 * one line of cookies, and an end only where the client ended it.
 */
export class Http2Request extends NodeRequest {
  readonly #unread = new UnreadChunks(this, (chunk) => super.push(chunk));

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: ReadableOptions,
    rawHeaders: readonly string[],
  ) {
    for (const name in headers) {
      const value = headers[name];
      if (typeof value === 'string' && value.length > LONG_VALUE) headers[name] = onHeap(value);
    }
    const authority = headers[':authority'] ?? headers.host;
    if (authority !== undefined) headers.host = authority;
    const chunked = !stream.endAfterHeaders && headers['content-length'] === undefined;
    if (chunked) headers['transfer-encoding'] = 'chunked';
    super(stream, headers, options, linesOf(headers, rawHeaders, chunked));
    const socket = clientSessionOf(stream.session)?.socket;
    if (socket !== undefined) Object.defineProperty(this, 'socket', { value: socket });
    if (!stream.endAfterHeaders) copySmallChunks(stream);
  }

  override _read(size: number): void {
    // Nothing more comes; Node's own would take it for a defect.
    if (!this.stream.closed) super._read(size);
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    // Node ends the request also when its stream was reset: a body cut short would pass for a whole one.
    if (chunk === null && this.stream.closed && !this.stream.endAfterHeaders) return false;
    return encoding === undefined ? this.#unread.push(chunk) : super.push(chunk, encoding);
  }

  override read(size?: number): Buffer | string | null {
    this.#unread.flush();
    return super.read(size);
  }
}

/** Length from which on the text of a header line is copied. */
const LONG_VALUE = 1_024;

/**
 * Copies a long text to V8's heap. The HTTP/2 library has it in memory that V8 does not count, and that is free only when V8
 * collects the string that stands for it: rejected requests alone would fill the memory of the process before that.
 */
function onHeap(text: string): string {
  return text.length > LONG_VALUE ? Buffer.from(text, 'latin1').toString('latin1') : text;
}

/** A stream takes what the client may send by its window, whether or not its request is read. */
function copySmallChunks(stream: ServerHttp2Stream): void {
  const { push, read } = stream;
  const unread = new UnreadChunks(stream, (chunk) => push.call(stream, chunk));
  stream.push = (chunk: Buffer | null) => unread.push(chunk);
  stream.read = (size?: number) => {
    unread.flush();
    return read.call(stream, size);
  };
}

/**
 * A response over HTTP/2 that is written like one over HTTP/1.1. Node drops headers of the connection by itself
 * (RFC 9113 §8.2.2).
 */
export class Http2Response extends NodeResponse {
  constructor(stream: ServerHttp2Stream) {
    super(stream);
    // Its connection is that of other requests as well: no one may write to it.
    Object.defineProperty(this, 'socket', { value: null });
    endWithLastByte(stream);
  }

  // HTTP/2 has no reason phrase (RFC 9113 §8.3.2).
  override writeHead(status: number, ...rest: readonly unknown[]): this {
    const headers = typeof rest[0] === 'string' ? rest[1] : rest[0];
    return super.writeHead(status, headers as IncomingHttpHeaders);
  }

  /** Ends the stream with an error: without one, a response cut short would pass for a whole one. */
  override destroy(): this {
    if (!this.stream.closed) resetStream(this.stream, constants.NGHTTP2_INTERNAL_ERROR);
    return this;
  }
}

// Properties of the type, so that they cannot be overridden as what they are.
Object.defineProperties(Http2Response.prototype, {
  // Node's class has none.
  destroyed: {
    get(this: Http2Response) {
      return this.stream.closed || this.stream.destroyed;
    },
  },
  // Node ends the stream itself when the client resets it.
  writableFinished: {
    get(this: Http2Response) {
      return this.stream.writableFinished && !this.stream.aborted;
    },
  },
});

/**
 * Resets a stream. Node ends the response first when it closes a stream, which would send END_STREAM before the reset.
 */
export function resetStream(stream: ServerHttp2Stream, code: number): void {
  if (!stream.writableEnded) stream._final = () => undefined;
  stream.close(code);
}

/**
 * Headers of responses that have one value: Node rejects to send two over HTTP/2. Of two lines, which a proxy in front
 * of a cluster may cause, the first counts, as it does for clients over HTTP/1.1.
 */
const SINGLE_VALUED = [
  ...['access-control-allow-credentials', 'access-control-max-age', 'age', 'content-encoding', 'content-language'],
  ...['content-location', 'content-md5', 'content-range', 'content-type', 'date', 'etag', 'expires', 'last-modified'],
  ...['location', 'retry-after', 'tk', 'x-content-type-options'],
];

/**
 * Ends a response of a known length with END_STREAM on the frame that completes it. Node's response always waits for
 * trailers, and so ends every response with a DATA frame of its own. Clients that count the bytes take the response for
 * complete before that frame: OkHttp, which the JDBC driver uses, then closes the connection while it reads on.
 *
 * Once such a response is complete, a client that still sends its request is asked to stop (RFC 9113 §8.1): many read
 * the response only then.
 */
function endWithLastByte(stream: ServerHttp2Stream): void {
  const { respond } = stream;
  stream.respond = (headers, options) => {
    const fields = (headers ?? {}) as OutgoingHttpHeaders;
    for (const name of SINGLE_VALUED) {
      const value = fields[name];
      if (Array.isArray(value)) fields[name] = value[0];
    }
    clientSessionOf(stream.session)?.noteResponse(fields);
    const length = fields['content-length'];
    if (length === undefined) {
      respond.call(stream, headers, options);
      return;
    }
    if (!stream.endAfterHeaders) {
      stream.once('finish', () => {
        if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
      });
    }
    // Trailers come only after a response of unknown length (RFC 9112 §7.1.2).
    const atOnce = String(length) === '0' ? { endStream: true } : {};
    respond.call(stream, headers, { ...options, ...atOnce, waitForTrailers: false });
  };
}

/** Header lines as an HTTP/1.1 client would have sent them. */
function linesOf(headers: IncomingHttpHeaders, raw: readonly string[], chunked: boolean): string[] {
  const lines: string[] = headers.host === undefined ? [] : ['host', headers.host];
  let cookies = false;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (name.startsWith(':') || name === 'host') continue;
    if (name === 'cookie') {
      // Clients may split them into many lines (RFC 9113 §8.2.3).
      if (!cookies) lines.push(name, headers.cookie as string);
      cookies = true;
    } else lines.push(name, onHeap(raw[index + 1] as string));
  }
  if (chunked) lines.push('transfer-encoding', 'chunked');
  return lines;
}
