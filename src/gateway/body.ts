import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { firstHeader, isHeader } from '../model/rawHeaders.ts';

/** Whether a request has a body (RFC 9112 §6.3). */
export function hasBody(request: IncomingMessage): boolean {
  const raw = request.rawHeaders;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (isHeader(name, 'content-length')) return Number(raw[index + 1]) > 0;
    if (isHeader(name, 'transfer-encoding')) return true;
  }
  return false;
}

/** Bytes that the client announced; null when it did not say. */
export function announcedLength(request: IncomingMessage): number | null {
  const value = firstHeader(request.rawHeaders, 'content-length');
  return value === undefined ? null : Number(value);
}

/** The start of a body, or all of it. */
export interface BodyStart {
  readonly bytes: Buffer;
  /** False: more follows, and the request is paused. */
  readonly complete: boolean;
  /** The bytes as UTF-8. */
  readonly text: string;
}

const nothing = Buffer.alloc(0);

/** No body at all. */
export const emptyBody: BodyStart = { bytes: nothing, complete: true, text: '' };

/**
 * Reads a body up to a limit. Calls back once; never when the client goes away before that (the response's `close`
 * tells).
 */
export function readStart(request: IncomingMessage, limit: number, done: (start: BodyStart) => void): void {
  let chunks: Buffer[] | null = null;
  let only: Buffer = nothing;
  let size = 0;
  const finish = (complete: boolean) => {
    const bytes = chunks === null ? only : Buffer.concat(chunks, size);
    done({ bytes, complete, text: bytes.toString('utf8') });
  };
  const onData = (chunk: Buffer) => {
    size += chunk.length;
    if (chunks !== null) chunks.push(chunk);
    else if (only.length === 0) only = chunk;
    else chunks = [only, chunk];
    if (size <= limit) return;
    request.off('data', onData).off('end', onEnd).pause();
    finish(false);
  };
  const onEnd = () => finish(true);
  request.on('data', onData).once('end', onEnd);
}

/**
 * A body on its way to a cluster: what was read already, then the rest of the request, with back-pressure. Unlike the
 * request itself it may be destroyed (when the cluster answers early) without closing the client's connection.
 */
export class BodyRelay extends Readable {
  readonly #source: IncomingMessage;
  readonly #limit: number;
  readonly #onTooLarge: () => void;
  #start: Buffer | null;
  #size = 0;
  #attached = false;

  /**
   * @param start bytes read already; null for none
   * @param limit most bytes; beyond it `onTooLarge` is called and the relay breaks
   */
  constructor(source: IncomingMessage, start: Buffer | null, limit: number, onTooLarge: () => void) {
    super();
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
    this.#source.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose);
    // What the client still sends is read and dropped, so that it gets to reading its answer.
    this.#source.resume();
    callback(error);
  }

  readonly #onData = (chunk: Buffer) => {
    this.#size += chunk.length;
    if (this.#size > this.#limit) {
      this.#onTooLarge();
      this.destroy(new Error('The body is larger than the limit'));
    } else if (!this.push(chunk)) this.#source.pause();
  };
  readonly #onEnd = () => this.push(null);
  readonly #onClose = () => {
    if (!this.#source.readableEnded) this.destroy(new Error('The client went away within the body'));
  };
}
