import { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { BodyBytes, isPinning } from './bodyBytes.ts';

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
