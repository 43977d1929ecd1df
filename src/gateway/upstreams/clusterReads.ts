import type { OnReadOpts, Socket } from 'node:net';
import { buildConnector } from 'undici';

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
