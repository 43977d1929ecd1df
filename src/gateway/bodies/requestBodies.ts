import { IncomingMessage, type ServerResponse } from 'node:http';
import { constants, type Http2ServerResponse } from 'node:http2';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { Counter, Gauge, type Registry } from 'prom-client';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';

/** True if a request has a body (RFC 9112 §6.3). */
function hasBody({ headers }: IncomingMessage): boolean {
  return Number(headers['content-length'] ?? 0) > 0 || headers['transfer-encoding'] !== undefined;
}

/** Bytes that the client announced; null if it announced none. */
export function announcedLength(request: IncomingMessage): number | null {
  const value = request.headers['content-length'];
  return value === undefined ? null : Number(value);
}

export interface BodyStart {
  readonly bytes: Buffer;
  /** False: more follows, and the request is paused. */
  readonly complete: boolean;
  /** The bytes as UTF-8. */
  readonly text: string;
}

const nothing = Buffer.alloc(0);

export const emptyBody: BodyStart = { bytes: nothing, complete: true, text: '' };

/** The refusal of a request with a body larger than `server.maxBodySize`, bytes. */
export function tooLargeBody(maxBodySize: number): Refusal {
  return toRefusal('body_too_large', `The body is larger than ${maxBodySize} bytes (server.maxBodySize).`);
}

/** The refusal of a request if there is no memory for its body. */
export function noMemoryForBody({ memory }: RequestBodies): Refusal {
  return toRefusal('request_memory', memoryMessage(memory));
}

/**
 * The message for a client if there is no memory for its body.
 * @param memory `server.requestMemory`, bytes
 */
export function memoryMessage(memory: number): string {
  return `Other requests take the ${Math.floor(memory)} bytes that there are for bodies (server.requestMemory); send the request again in a second.`;
}

/** Bodies up to this size are small; a quarter of the memory is kept for them. */
const SMALL_BODY = 65_536;
/** Share of the memory that larger bodies may take. */
const LARGE_SHARE = 0.75;
/** Bytes of a body that passes through: buffers of the request, of the relay, and of the connection to the cluster. */
const RELAY_BYTES = 131_072;

/** Bytes of a request until its response is over. */
interface BodyUsage {
  bytes: number;
  isReleased: boolean;
}

/**
 * Reads bodies of requests, and counts their bytes, on all listeners together. They never exceed
 * `server.requestMemory`: a body that would exceed it as it grows is rejected.
 */
export class RequestBodies {
  /** `server.requestMemory`, bytes. */
  readonly memory: number;
  readonly #rejected: Counter<'reason'>;
  #used = 0;

  /** @param memory bytes */
  constructor(memory: number, registry: Registry) {
    this.memory = memory;
    const registers = [registry];
    const used: Gauge = new Gauge({
      name: 'engine_gateway_request_memory_bytes',
      help: 'Bytes of request bodies that are buffered.',
      registers,
      collect: () => used.set(this.#used),
    });
    new Gauge({
      name: 'engine_gateway_request_memory_limit_bytes',
      help: 'Most bytes of request bodies that are buffered (server.requestMemory).',
      registers,
    }).set(memory);
    this.#rejected = new Counter({
      name: 'engine_gateway_request_bodies_refused_total',
      help: 'Requests rejected because there is no memory for their body (request_memory).',
      labelNames: ['reason'],
      registers,
    });
  }

  /**
   * Reads a body up to a limit; a request without one has an empty body. Never settles if the client goes away before that
   * (the response's `close` shows it).
   * @param limit bytes after which reading ends
   * @returns `noMemory` with the request's body unread: the rest is dropped
   */
  read(request: IncomingMessage, response: ServerResponse, limit: number): Promise<BodyStart | 'noMemory'> {
    // Node.js emits no `end` for these (optimizeEmptyRequests).
    if (!hasBody(request)) return Promise.resolve(emptyBody);
    const { promise, resolve } = Promise.withResolvers<BodyStart | 'noMemory'>();
    const usage = this.#holdUntilEnd(response);
    const bytes = new BodyBytes();
    const finish = (complete = true) => {
      const joined = bytes.joined();
      resolve({ bytes: joined, complete, text: joined.toString('utf8') });
    };
    const onData = (chunk: Buffer) => {
      if (this.#grow(usage, chunk.length)) {
        bytes.add(chunk);
        if (bytes.size <= limit) return;
        request.pause();
        finish(false);
      } else {
        this.#release(usage);
        request.resume();
        resolve('noMemory');
      }
      request.off('data', onData).off('end', finish);
    };
    request.on('data', onData).on('end', finish);
    return promise;
  }

  /** Takes what a body that passes through to a cluster may buffer; false if there is no memory for it. */
  relay(request: IncomingMessage, response: ServerResponse): boolean {
    const bytes = Math.min(announcedLength(request) ?? RELAY_BYTES, RELAY_BYTES);
    return this.#grow(this.#holdUntilEnd(response), bytes);
  }

  #holdUntilEnd(response: ServerResponse): BodyUsage {
    const usage = { bytes: 0, isReleased: false };
    response.once('close', () => this.#release(usage));
    return usage;
  }

  #grow(usage: BodyUsage, bytes: number): boolean {
    if (usage.isReleased) return true;
    const limit = usage.bytes + bytes > SMALL_BODY ? this.memory * LARGE_SHARE : this.memory;
    if (this.#used + bytes > limit) {
      this.#rejected.inc({ reason: 'request_memory' });
      return false;
    }
    usage.bytes += bytes;
    this.#used += bytes;
    return true;
  }

  #release(usage: BodyUsage): void {
    usage.isReleased = true;
    this.#used -= usage.bytes;
    usage.bytes = 0;
  }
}

const SMALL_CHUNK = 4_096;
const MAX_SLAB_SIZE = 65_536;

/** Bytes of a body as they come, at a cost in proportion to them, whatever the size of the chunks. */
export class BodyBytes {
  #first: Buffer = nothing;
  #more: Buffer[] | null = null;
  /** Copies of small chunks; the last of `#more` is its used part. */
  #slab: Buffer = nothing;
  #slabUsed = 0;
  /** Bytes so far. */
  size = 0;

  add(chunk: Buffer): void {
    if (this.size === 0) this.#first = chunk;
    else if (chunk.length < SMALL_CHUNK || isPinning(chunk)) this.#copy(chunk);
    else {
      this.#closeSlab();
      this.#chunks().push(chunk);
    }
    this.size += chunk.length;
  }

  /** All bytes so far in one piece. Nothing may be added after that. */
  joined(): Buffer {
    if (this.#slabUsed > 0) this.#closeSlab();
    if (this.#more !== null) return Buffer.concat(this.#more, this.size);
    return isPinning(this.#first) ? ownCopy(this.#first) : this.#first;
  }

  #chunks(): Buffer[] {
    this.#more ??= [this.#first];
    return this.#more;
  }

  #copy(chunk: Buffer): void {
    this.#chunks();
    let from = 0;
    while (from < chunk.length) {
      if (this.#slabUsed === this.#slab.length) {
        this.#closeSlab();
        this.#slab = Buffer.allocUnsafeSlow(Math.min(Math.max(this.size, SMALL_CHUNK), MAX_SLAB_SIZE));
      }
      const copied = chunk.copy(this.#slab, this.#slabUsed, from);
      this.#slabUsed += copied;
      from += copied;
    }
  }

  #closeSlab(): void {
    if (this.#slabUsed > 0) this.#chunks().push(this.#slab.subarray(0, this.#slabUsed));
    this.#slab = nothing;
    this.#slabUsed = 0;
  }
}

/** True if a chunk is a small part of the memory that it keeps from being freed. */
export function isPinning(chunk: Buffer): boolean {
  return chunk.buffer.byteLength > 2 * chunk.length + SMALL_CHUNK;
}

function ownCopy(chunk: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(chunk.length);
  chunk.copy(copy);
  return copy;
}

/** Most time, in milliseconds, in which what a client still sends after its last response is dropped. */
const LINGER_MS = 5_000;

/** Most connections that linger at a time; further ones are closed with the response. */
const MAX_LINGERING = 64;
let lingering = 0;

/** Connections over HTTP/1 on which a request was rejected as the last one, before its end was seen: what follows is never run. */
export const endedConnections = new WeakSet<Socket>();

export function isUnfinished(request: IncomingMessage): boolean {
  return !request.complete && hasBody(request);
}

/**
 * Makes a request the last of its connection, before its response is written: what follows is never run. Over HTTP/2,
 * where requests cannot run into each other, its stream alone ends.
 *
 * A connection that is closed while its client still sends is reset, which can take the response away from the client.
 * So only our side is ended at first, and what comes is dropped (RFC 9112 §9.6).
 */
export function endWith(request: IncomingMessage, response: ServerResponse): void {
  if (request.httpVersionMajor === 2) {
    const { stream } = response as unknown as Http2ServerResponse;
    // RFC 9113 §8.1: the client need not send the rest.
    response.once('finish', () => stream.close(constants.NGHTTP2_NO_ERROR));
    return;
  }
  const { socket } = request;
  endedConnections.add(socket);
  response.shouldKeepAlive = false;
  // Called by Node after the response was written.
  socket.destroySoon = () => linger(socket);
  request.resume();
}

/**
 * Ends our side of a connection, and drops what comes until the client ends its own, for a while.
 * @param last bytes that are sent before
 */
export function linger(socket: Socket, last = ''): void {
  if (socket.destroyed) return;
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
  if (lingering < MAX_LINGERING) {
    lingering++;
    socket.once('close', () => {
      lingering--;
    });
  } else socket.once('finish', () => socket.destroy());
  socket.end(last);
}

/** Chunks below this size cost a multiple of their bytes while they wait in a stream, bytes. */
export const SMALL_CHUNK_BYTES = 1_024;

/**
 * Full DATA frames (RFC 9113 §6.5.2, SETTINGS_MAX_FRAME_SIZE), of which a fast upload consists: they are a quarter or more of
 * the memory behind them, and copying them would cost more than they hold, bytes.
 */
const FULL_CHUNK_BYTES = 16_384;

/**
 * Small chunks that a stream receives while no one reads it, copied together. A stream counts the bytes that it
 * buffers, not the object and the memory behind each chunk: a client that sends its body in chunks of one byte (RFC
 * 9112 §7.1), or in DATA frames of one byte (RFC 9113 §6.1), makes 64 KB cost more than 5 MB otherwise.
 */
export class UnreadChunks {
  readonly #stream: Readable;
  readonly #push: (chunk: Buffer | null) => boolean;
  #bytes: BodyBytes | null = null;

  /** @param push adds a chunk to what the stream buffers, without a detour over this */
  constructor(stream: Readable, push: (chunk: Buffer | null) => boolean) {
    this.#stream = stream;
    this.#push = push;
  }

  /**
   * Adds a chunk in place of the stream's `push`.
   * @returns false where the stream has enough for now
   */
  push(chunk: Buffer | null): boolean {
    const stream = this.#stream;
    if (chunk === null) {
      this.flush();
      return this.#push(null);
    }
    const isCopied = chunk.length < SMALL_CHUNK_BYTES || (chunk.length < FULL_CHUNK_BYTES && isPinning(chunk));
    if (!isCopied || (this.#bytes === null && stream.readableLength === 0)) {
      this.flush();
      return this.#push(chunk);
    }
    this.#bytes ??= new BodyBytes();
    this.#bytes.add(chunk);
    return stream.readableLength + this.#bytes.size < stream.readableHighWaterMark;
  }

  /** Hands what was copied to the stream, which is being read: to be called before its own `read`. */
  flush(): void {
    const bytes = this.#bytes;
    if (bytes === null) return;
    this.#bytes = null;
    this.#push(bytes.joined());
  }
}

/** A request over HTTP/1.1 whose body costs no more than its bytes while no one reads it. */
export class Http1Request extends IncomingMessage {
  /** Null as long as nothing had to be copied: most requests have no body, or one chunk. */
  unread: UnreadChunks | null = null;

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    if (this.unread === null) {
      if (chunk === null || this.readableLength === 0) return super.push(chunk, encoding);
      this.unread = new UnreadChunks(this, (joined) => super.push(joined));
    }
    return this.unread.push(chunk);
  }

  override read(size?: number): unknown {
    this.unread?.flush();
    return super.read(size);
  }
}

/** Bytes that a relay buffers. */
const HELD_BYTES = 16_384;
/** Small chunks that are passed on as they come; each costs some hundred bytes until the cluster has taken it. */
const SMALL_CHUNKS_AT_ONCE = 64;
/** Time that a small chunk after these waits for others, milliseconds. */
const JOIN_MS = 100;

/**
 * A body on its way to a cluster: what was read already, then the rest of the request, with back-pressure. Unlike the
 * request itself it may be destroyed (when the cluster responds early) without closing the client's connection.
 */
export class BodyRelay extends Readable {
  readonly #source: IncomingMessage;
  readonly #limit: number;
  readonly #onTooLarge: () => void;
  #start: Buffer | null;
  #size = 0;
  #attached = false;
  #smallChunks = 0;
  /** Small chunks that wait to be passed on in one piece. */
  #joining: BodyBytes | null = null;
  #joinTimer: NodeJS.Timeout | undefined;

  /**
   * @param start bytes read already; null for none
   * @param limit most bytes
   * @param onTooLarge called before the relay breaks because the body is larger
   */
  constructor(source: IncomingMessage, start: Buffer | null, limit: number, onTooLarge: () => void) {
    super({ highWaterMark: HELD_BYTES });
    this.#source = source;
    this.#start = start;
    this.#limit = limit;
    this.#onTooLarge = onTooLarge;
  }

  override _read(): void {
    if (!this.#attached) {
      this.#attached = true;
      this.#source.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onClose);
      const start = this.#start;
      this.#start = null;
      if (start !== null && start.length > 0) {
        this.#onData(start);
        return;
      }
    }
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    clearTimeout(this.#joinTimer);
    this.#joining = null;
    this.#source.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose);
    // Further client data is read and dropped, so that the client reads the response.
    this.#source.resume();
    callback(error);
  }

  readonly #onData = (chunk: Buffer) => {
    this.#size += chunk.length;
    if (this.#size > this.#limit) {
      this.#onTooLarge();
      this.destroy(new Error('The body is too large'));
    } else if (this.#isOneSmallTooMany(chunk)) this.#join(chunk);
    else {
      this.#passOnJoined();
      this.#passOn(chunk);
    }
  };
  readonly #onEnd = () => {
    this.#passOnJoined();
    this.push(null);
  };
  readonly #onClose = () => {
    if (!this.#source.readableEnded) this.destroy(new Error('The client went away within the body'));
  };

  #isOneSmallTooMany(chunk: Buffer): boolean {
    if (chunk.length >= SMALL_CHUNK_BYTES) return false;
    this.#smallChunks++;
    return this.#smallChunks > SMALL_CHUNKS_AT_ONCE;
  }

  /** Copies a chunk to others, which are passed on when they are many bytes or have waited. */
  #join(chunk: Buffer): void {
    if (this.#joining === null) {
      this.#joining = new BodyBytes();
      this.#joinTimer = setTimeout(() => this.#passOnJoined(), JOIN_MS);
    }
    this.#joining.add(chunk);
    if (this.#joining.size >= SMALL_CHUNK_BYTES) this.#passOnJoined();
  }

  #passOnJoined(): void {
    clearTimeout(this.#joinTimer);
    const joining = this.#joining;
    if (joining === null) return;
    this.#joining = null;
    this.#passOn(joining.joined());
  }

  #passOn(chunk: Buffer): void {
    if (this.push(chunk)) return;
    this.#source.pause();
  }
}
