import type { OnReadOpts, Socket } from 'node:net';
import { buildConnector, Pool } from 'undici';
import type { HttpClientSettings } from '../../config/httpClient.ts';
import type { Clock } from '../../model/clock.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';

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
  readonly limit: number;
  readonly #clock: Clock;
  /** Monotonic time since which all connection attempts failed, or null. */
  unreachableSince: number | null = null;
  /** Consecutive statement requests that failed or returned 5xx. */
  failuresInARow = 0;
  /** Number of requests in the pool without a complete response. */
  inFlight = 0;
  #lastUsed: number;
  /** Monotonic time of the last response; 0 for none. */
  lastResponded = 0;

  constructor(proxyTo: string, url: URL, options: UpstreamOptions, clock: Clock) {
    this.proxyTo = proxyTo;
    this.basePath = url.pathname.replace(/\/+$/, '');
    this.hostname = url.hostname;
    this.limit = options.maxConnectionsPerServer + options.maxRequestsQueuedPerDestination;
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

  /** Records a request in the pool; call `requestEnded` once for each. */
  requestStarted(): void {
    this.inFlight++;
    this.#lastUsed = this.#clock.monotonic();
  }

  requestEnded(): void {
    this.inFlight--;
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
    return this.inFlight === 0 && this.#lastUsed <= time;
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
  readonly byProxyTo = new Map<string, Upstream>();

  constructor(options: UpstreamOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  /** The upstream of a `proxyTo`; null if that is not an HTTP URL (an external row). */
  get(proxyTo: string): Upstream | null {
    let upstream = this.byProxyTo.get(proxyTo);
    if (upstream === undefined) {
      if (!URL.canParse(proxyTo)) return null;
      const url = new URL(proxyTo);
      if (url.protocol !== 'http:' && url.protocol !== 'https:') return null;
      upstream = new Upstream(proxyTo, url, this.#options, this.#clock);
      this.byProxyTo.set(proxyTo, upstream);
    }
    return upstream;
  }

  get inFlight(): number {
    let sum = 0;
    for (const upstream of this.byProxyTo.values()) sum += upstream.inFlight;
    return sum;
  }

  /**
   * Closes pools without a request for ten minutes and without a registered cluster.
   * @param registered `proxyTo` of the registered clusters
   */
  sweep(registered: ReadonlySet<string>): void {
    const before = this.#clock.monotonic() - UNUSED_AFTER_MS;
    for (const [proxyTo, upstream] of this.byProxyTo) {
      if (registered.has(proxyTo) || !upstream.isUnusedSince(before)) continue;
      this.byProxyTo.delete(proxyTo);
      void upstream.pool.close().catch(() => undefined);
    }
  }

  async destroy(): Promise<void> {
    const pools = [...this.byProxyTo.values()].map((upstream) => upstream.pool.destroy());
    this.byProxyTo.clear();
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

/** Read size until the size of a response is known: most fit, and are copied. */
const READ_BYTES = 16_384;
const LENT_BYTES = 131_072;
/** Maximum number of cached buffers for large responses. */
const MAX_CACHED = 32;

/**
 * Returns a connector for connections that read without a new buffer for each read (docs/decisions/0019-lent-reads.md).
 * All of them read into one buffer, and the data is copied, as most responses are small. An exchange that forwards a
 * large response is lent a buffer, from which the client's bytes are sent, and stops reading until they are gone.
 *
 * Only in clear text: over TLS a read may be emitted in the middle of a write, when another read is being processed.
 * @param options the timeout of connecting in milliseconds
 */
export function clusterConnector(
  options: buildConnector.BuildOptions & { readonly timeout: number; readonly allowH2: false },
): buildConnector.connector {
  const connect = buildConnector({ ...options, onread: onRead } as buildConnector.BuildOptions);
  return (target, callback) =>
    connect(target, (...result) => {
      const [error, socket] = result;
      if (error === null) ClusterReads.attach(socket as Socket);
      callback(...result);
    });
}

const shared = Buffer.allocUnsafeSlow(READ_BYTES);
/** Destination of the next read; Node requests it when it creates a connection, and after each read. */
let next: Buffer = shared;
/** The connection whose read is being processed. */
let current: ClusterReads | null = null;
const chunks: Buffer[] = [];
const readsOf = Symbol('reads');

interface ReadingSocket extends Socket {
  [readsOf]?: ClusterReads;
}

const onRead: OnReadOpts = {
  buffer: () => {
    const buffer = next;
    next = shared;
    return buffer;
  },
  callback(this: unknown, count: number, buffer: Uint8Array): boolean {
    return (this as ReadingSocket)[readsOf]?.read(count, buffer as Buffer) ?? false;
  },
};

/** Reads of one connection for undici, which calls `read` and returns data with `unshift`. */
class ClusterReads {
  readonly #socket: Socket;
  #pending: Buffer | null = null;
  #isStopped = false;
  loan: LentReads | null = null;
  /** End offset of the current read in the lent buffer. */
  end = 0;

  static attach(socket: Socket): void {
    (socket as ReadingSocket)[readsOf] = new ClusterReads(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    const read = socket.read.bind(socket);
    socket.read = (size?: number) => (size === 0 ? read(0) : this.#take(read));
    socket.unshift = (rest: Buffer) => this.#takeBack(rest);
  }

  /** Processes the read data; returns false to stop reading for now. */
  read(count: number, buffer: Buffer): boolean {
    const { loan } = this;
    const bytes = buffer.subarray(0, count);
    const isLent = loan !== null && loan.buffer === buffer;
    this.#pending = isLent ? bytes : Buffer.from(bytes);
    this.#isStopped = false;
    this.end = count;
    current = this;
    try {
      this.#socket.emit('readable');
    } finally {
      current = null;
    }
    if (isLent) {
      // The data was not consumed: it waits, and the buffer does not.
      if (this.#pending === bytes) this.#pending = Buffer.from(bytes);
      loan.endOfRead(this.#isStopped || this.#pending !== null);
    }
    next = this.loan?.ready() ?? shared;
    if (isLent && this.loan !== loan) loan.isLeft();
    return !this.#isStopped && this.#pending === null;
  }

  #take(read: () => unknown): Buffer | null {
    const bytes = this.#pending;
    this.#pending = null;
    this.#isStopped = false;
    if (bytes !== null) return bytes;
    return current === this ? null : (read() as Buffer | null);
  }

  #takeBack(rest: Buffer): void {
    this.#isStopped = true;
    if (rest.length === 0) return;
    this.#pending = this.loan?.buffer?.buffer === rest.buffer ? Buffer.from(rest) : rest;
  }
}

/**
 * A lent buffer for the reads of one response. Its exchange gathers the chunks of each read, sends them with the last
 * one, and pauses there until the client has received them all: the next read overwrites them.
 */
export class LentReads {
  /** Null until the first read. */
  buffer: Buffer | null = null;
  readonly #reads: ClusterReads;
  readonly #flush: () => void;
  #start = 0;
  #end = 0;
  #chunkEnd = -1;
  #isOver = false;
  #isLeft = false;
  #isFree = false;

  /**
   * Lends a buffer to the exchange that receives a chunk at the moment, for the reads after this one.
   * @param flush sends the gathered data (`take`) if a read ends behind the last chunk
   * @returns null if unavailable
   */
  static ask(flush: () => void): LentReads | null {
    return current === null || current.loan !== null ? null : new LentReads(current, flush);
  }

  private constructor(reads: ClusterReads, flush: () => void) {
    this.#reads = reads;
    this.#flush = flush;
    reads.loan = this;
  }

  ready(): Buffer {
    this.buffer ??= chunks.pop() ?? Buffer.allocUnsafeSlow(LENT_BYTES);
    return this.buffer;
  }

  holds(chunk: Buffer): boolean {
    return current === this.#reads && chunk.buffer === this.buffer?.buffer;
  }

  /**
   * Appends a chunk of the current read to the previous ones, moved together: sizes of chunks (RFC 9112 §7.1) between
   * them are not needed any more.
   * @returns true if the read ends with it: call `take` then
   */
  gather(chunk: Buffer): boolean {
    const buffer = this.ready();
    const from = chunk.byteOffset - buffer.byteOffset;
    const to = from + chunk.length;
    if (this.#start === this.#end) {
      this.#start = from;
      this.#end = to;
    } else {
      if (from !== this.#end) buffer.copyWithin(this.#end, from, to);
      this.#end += chunk.length;
    }
    this.#chunkEnd = to;
    return to === this.#reads.end;
  }

  /** The gathered data, or null. */
  take(): Buffer | null {
    if (this.#start === this.#end) return null;
    const bytes = this.ready().subarray(this.#start, this.#end);
    this.#start = 0;
    this.#end = 0;
    return bytes;
  }

  over(): void {
    this.#isOver = true;
    if (this.#reads.loan === this) this.#reads.loan = null;
  }

  /** Marks the buffer as unused: it may be lent again once the connection reads elsewhere. */
  free(): void {
    this.#isFree = true;
    this.#keep();
  }

  isLeft(): void {
    this.#isLeft = true;
    this.#keep();
  }

  /**
   * Called after a read was processed.
   * @param isPaused true if undici stopped right behind a chunk
   */
  endOfRead(isPaused: boolean): void {
    const isBehindChunk = isPaused || this.#chunkEnd === this.#reads.end;
    this.#chunkEnd = -1;
    if (this.#isOver || isBehindChunk) return;
    this.#flush();
    // Undici references the start of a trailer line that the next read completes, and clients may not have received
    // all.
    this.buffer = null;
  }

  #keep(): void {
    if (this.buffer === null || !this.#isFree || !this.#isLeft) return;
    if (chunks.length < MAX_CACHED) chunks.push(this.buffer);
    this.buffer = null;
  }
}
