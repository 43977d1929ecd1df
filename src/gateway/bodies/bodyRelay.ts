import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { BodyBytes } from './bodyBytes.ts';
import { SMALL_CHUNK_BYTES } from './unreadChunks.ts';

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
