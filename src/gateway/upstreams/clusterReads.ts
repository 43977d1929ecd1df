import type { OnReadOpts, Socket } from 'node:net';
import { buildConnector } from 'undici';

/** Bytes that are read at once as long as nothing is known of the answer: most fit, and are copied. */
const READ_BYTES = 16_384;
/** Bytes that are read at once of a large answer. */
const LENT_BYTES = 131_072;
/** Buffers that are kept for the next large answers. */
const MAX_KEPT = 32;

/**
 * Makes a connector whose connections read without a new buffer for each read (docs/decisions/0019-lent-reads.md). All
 * of them read into one buffer, and what was read is copied, as most answers are small. An exchange that passes on a
 * large answer is lent a buffer, which the client's bytes are sent from, and stops reading until they are gone.
 *
 * In clear text only: over TLS a read may come out in the middle of a write, when another read is being processed.
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

/** The buffer of all connections that have none of their own. */
const shared = Buffer.allocUnsafeSlow(READ_BYTES);
/** What the next read goes to; Node asks for it when it makes a connection, and after each read. */
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

/** What is read from one connection, for undici, which asks for it by `read` and gives back by `unshift`. */
class ClusterReads {
  readonly #socket: Socket;
  #pending: Buffer | null = null;
  #isStopped = false;
  loan: LentReads | null = null;
  /** Offset in the lent buffer at which the read that is being processed ends. */
  end = 0;

  /** Takes over the reading of a connection that is just made. */
  static attach(socket: Socket): void {
    (socket as ReadingSocket)[readsOf] = new ClusterReads(socket);
  }

  private constructor(socket: Socket) {
    this.#socket = socket;
    const read = socket.read.bind(socket);
    socket.read = (size?: number) => (size === 0 ? read(0) : this.#take(read));
    socket.unshift = (rest: Buffer) => this.#takeBack(rest);
  }

  /** Processes what was read; false where nothing more is to be read for now. */
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
      // Nobody took it: it waits, and the buffer does not.
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

  /** Undici was asked to pause. */
  #takeBack(rest: Buffer): void {
    this.#isStopped = true;
    if (rest.length === 0) return;
    this.#pending = this.loan?.buffer?.buffer === rest.buffer ? Buffer.from(rest) : rest;
  }
}

/**
 * A buffer that a connection reads into for one answer alone. Its exchange gathers the chunks of each read, sends them
 * with the last one, and pauses there where the client has not taken them all: the next read overwrites them.
 */
export class LentReads {
  /** Null as long as nothing is read into it. */
  buffer: Buffer | null = null;
  readonly #reads: ClusterReads;
  readonly #flush: () => void;
  /** What was gathered. */
  #start = 0;
  #end = 0;
  /** Where the last chunk of this read ends. */
  #chunkEnd = -1;
  #isOver = false;
  #isLeft = false;
  #isFree = false;

  /**
   * Lends a buffer to the exchange that is given a chunk at the moment, for the reads after this one.
   * @param flush takes what is gathered (`take`), where a read ends behind the last chunk
   * @returns null where it cannot be lent now
   */
  static ask(flush: () => void): LentReads | null {
    return current === null || current.loan !== null ? null : new LentReads(current, flush);
  }

  private constructor(reads: ClusterReads, flush: () => void) {
    this.#reads = reads;
    this.#flush = flush;
    reads.loan = this;
  }

  /** The buffer for the next read. */
  ready(): Buffer {
    this.buffer ??= chunks.pop() ?? Buffer.allocUnsafeSlow(LENT_BYTES);
    return this.buffer;
  }

  /** Whether a chunk lies in the lent buffer. */
  holds(chunk: Buffer): boolean {
    return current === this.#reads && chunk.buffer === this.buffer?.buffer;
  }

  /**
   * Adds a chunk of the read that is being processed to those before it, moved together: what is between them, sizes of
   * chunks (RFC 9112 §7.1), is done with.
   * @returns whether the read ends with it: `take` has to follow
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

  /** What was gathered; null for nothing. */
  take(): Buffer | null {
    if (this.#start === this.#end) return null;
    const bytes = this.ready().subarray(this.#start, this.#end);
    this.#start = 0;
    this.#end = 0;
    return bytes;
  }

  /** No more is read for this answer. */
  over(): void {
    this.#isOver = true;
    if (this.#reads.loan === this) this.#reads.loan = null;
  }

  /** Nothing of the buffer is in use any more: it may be lent again once the connection reads elsewhere. */
  free(): void {
    this.#isFree = true;
    this.#keep();
  }

  /** The connection reads elsewhere. */
  isLeft(): void {
    this.#isLeft = true;
    this.#keep();
  }

  /**
   * A read was processed.
   * @param isPaused whether undici stopped right behind a chunk
   */
  endOfRead(isPaused: boolean): void {
    const isBehindChunk = isPaused || this.#chunkEnd === this.#reads.end;
    this.#chunkEnd = -1;
    if (this.#isOver || isBehindChunk) return;
    this.#flush();
    // Undici remembers where a line of trailers begins that the next read completes, and clients may not have taken all.
    this.buffer = null;
  }

  #keep(): void {
    if (this.buffer === null || !this.#isFree || !this.#isLeft) return;
    if (chunks.length < MAX_KEPT) chunks.push(this.buffer);
    this.buffer = null;
  }
}
