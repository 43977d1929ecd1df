import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { LentReads } from '../upstreams/clusterReads.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/**
 * Writes the body of a cluster's response to the client, its head being written already: bytes untouched, without a
 * stream in between. The cluster is paused while the client does not take what was written.
 */
export class ResponseWriter {
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #stallTimeout: number;
  readonly #headers: ResponseHeaders;
  readonly #cluster: Dispatcher.DispatchController | null;
  /** `flushing`: lent bytes wait for the client; `ended`: the last byte is written. */
  #state: 'open' | 'flushing' | 'ended' = 'open';
  /** Bytes of the body still to come by Content-Length; -1 without it. */
  #remaining: number;
  /** Bytes of the body that came, until a buffer is lent. */
  #received = 0;
  #loan: LentReads | null = null;
  #onDrain: (() => void) | null = null;
  #onFlushed: ((error?: Error | null) => void) | null = null;
  #stallTimer: NodeJS.Timeout | null = null;

  /**
   * @param cluster pauses and resumes the cluster's response; null if it is whole already
   * @param contentLength of the response; undefined if its head does not say
   * @param stallTimeout milliseconds without the client taking what waits for it, after which it is cut off
   */
  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    cluster: Dispatcher.DispatchController | null,
    contentLength: string | string[] | undefined,
    stallTimeout: number,
    headers: ResponseHeaders,
  ) {
    this.#request = request;
    this.#response = response;
    this.#cluster = cluster;
    this.#remaining = typeof contentLength === 'string' ? Number(contentLength) : -1;
    this.#stallTimeout = stallTimeout;
    this.#headers = headers;
  }

  pass(chunk: Buffer): void {
    if (this.#loan?.holds(chunk) === true) {
      // While others wait, nothing is gathered: a chunk that is paused at is the last of its read.
      if (this.#loan.gather(chunk) || this.#state === 'flushing') this.#passOnLent();
      return;
    }
    this.#passOnLent();
    if (!this.write(chunk)) this.#pauseUntilDrained();
    if (this.#loan === null) this.#askForLoan(chunk.length);
  }

  /** Writes a chunk; false where the client has not taken what waits for it. */
  write(chunk: Buffer, flushed?: (error?: Error | null) => void): boolean {
    if (this.#remaining >= 0) {
      this.#remaining -= chunk.length;
      if (this.#remaining === 0) {
        this.#state = 'ended';
        this.#finishWith(chunk);
        return true;
      }
    }
    return flushed === undefined ? this.#response.write(chunk) : this.#response.write(chunk, flushed);
  }

  /**
   * Ends the response.
   * @param trailers of the cluster's response; null for none
   * @returns false where the trailers cannot be sent: the response is not whole, and the caller has to cut it
   */
  end(trailers: IncomingHttpHeaders | null): boolean {
    const rest = this.#loan?.take() ?? null;
    if (rest !== null) this.write(rest);
    const isWhole = this.#state === 'ended' || this.#endWith(trailers);
    this.#loan?.over();
    return isWhole;
  }

  /** The cluster's response broke off: nothing more is read. */
  onBreak(): void {
    this.#loan?.over();
  }

  /** The client's connection took all of the response, or is gone. */
  onClose(): void {
    this.#endStall();
    if (this.#response.writableFinished) this.#loan?.free();
  }

  #endWith(trailers: IncomingHttpHeaders | null): boolean {
    this.#state = 'ended';
    const forwarded = trailers === null ? null : this.#headers.trailersForClient(trailers);
    if (forwarded !== null && !this.#addTrailers(forwarded)) return false;
    this.#response.end();
    if (this.#response.writableLength > 0) this.#watchStall();
    return true;
  }

  #addTrailers(trailers: Record<string, string>): boolean {
    try {
      this.#response.addTrailers(trailers);
      return true;
    } catch {
      return false;
    }
  }

  /** Writes the last bytes of a response whose length was announced. */
  #finishWith(chunk: Buffer): void {
    const response = this.#response;
    if (chunk.length > MAX_JOINED_BYTES || response.socket === null || response.socket.writableLength > 0) {
      response.end(chunk);
      if (response.writableLength > 0) this.#watchStall();
      return;
    }
    // As text, Node joins head and body into one write; as a Buffer they and the empty end are a gathering write of
    // three. Latin-1 keeps every byte.
    response.write(chunk.toString('latin1'), 'latin1');
    response.socket.uncork();
    response.end();
  }

  /** Large responses are read into a buffer of their own, which the client's bytes are sent from. */
  #askForLoan(length: number): void {
    this.#received += length;
    if (this.#received < LENT_AFTER_BYTES || this.#state === 'ended') return;
    this.#loan = LentReads.ask(() => this.#passOnLent());
  }

  /** Sends what was gathered in the lent buffer; where the client does not take all, the cluster has to wait. */
  #passOnLent(): void {
    const bytes = this.#loan?.take() ?? null;
    if (bytes === null) return;
    const response = this.#response;
    this.#onFlushed ??= (error) => this.#onFlush(error);
    if (response.socket === null && this.#request.httpVersionMajor === 1) {
      // Behind another response on the client's connection (RFC 9112 §9.3.2).
      if (!this.write(Buffer.from(bytes))) this.#pauseUntilDrained();
      return;
    }
    this.write(bytes, this.#onFlushed);
    while (response.writableCorked > 0) response.uncork();
    if (response.writableLength === 0 || this.#state === 'ended') return;
    this.#state = 'flushing';
    this.#cluster?.pause();
    this.#watchStall();
  }

  #onFlush(error: Error | null | undefined): void {
    if (this.#state !== 'flushing' || (error !== null && error !== undefined)) return;
    if (this.#response.writableLength > 0) return;
    this.#state = 'open';
    this.#endStall();
    this.#cluster?.resume();
  }

  #pauseUntilDrained(): void {
    this.#cluster?.pause();
    this.#watchStall();
    this.#onDrain ??= () => {
      this.#endStall();
      this.#cluster?.resume();
    };
    this.#response.once('drain', this.#onDrain);
  }

  /** A client that takes nothing would hold its connection, the one to the cluster, and what waits for it, for ever. */
  #watchStall(): void {
    this.#stallTimer ??= setTimeout(() => this.#response.destroy(), this.#stallTimeout).unref();
  }

  #endStall(): void {
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#stallTimer = null;
  }
}

/** Bytes of a body after which more are expected, too many to be copied. */
const LENT_AFTER_BYTES = 12_288;

/** Node writes text up to 16 KB without a buffer of its own; head and body together stay below. */
const MAX_JOINED_BYTES = 14_336;
