import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { writeClusterHead } from '../headers/clusterHead.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import { classify, isOwnFault } from '../upstreams/clusterError.ts';
import { LentReads } from '../upstreams/clusterReads.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** What is sent to a cluster. */
export interface OutgoingRequest {
  readonly method: string;
  /** Path and query string as the client sent them. */
  readonly target: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: Buffer | Readable | null;
  /** Milliseconds until the head of the answer must be there (`routing.asyncTimeout`). */
  readonly headersTimeout: number;
}

/** How an exchange ended, for metrics and log. */
export type ExchangeEnd = 'answered' | 'failed' | 'client_gone';

/** What one exchange differs in. */
export interface ExchangeOptions {
  /** Milliseconds without the client taking what waits for it, after which it is cut off. */
  readonly stallTimeout: number;
  /** Whether failures tell of the cluster's health (`serverFailed`): those of statement paths do. */
  readonly judgesCluster: boolean;
  /** Which lines of the cluster's answer the client gets. */
  readonly answerHeaders: ResponseHeaders;
}

interface HeldAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly statusText: string | undefined;
  readonly chunks: Buffer[];
  size: number;
  ended: boolean;
}

/**
 * One client request on its way to a cluster and back. It is the handler that undici calls for each part of the answer
 * and writes that part to the client directly: no stream in between, bytes untouched, back-pressure by pausing.
 * Subclasses say what a failure means and which answers are held until something about them is known.
 */
export abstract class Exchange implements Dispatcher.DispatchHandler {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Where the request goes; set by `send`. */
  upstream: Upstream | null = null;
  /** True once the request was written to a connection. */
  sent = false;
  /** True once the first byte of an answer came. */
  answered = false;
  /** Status of the cluster's answer; 0 before. */
  status = 0;
  clientGone = false;
  /** True once the gateway had to cut an answer short, as the cluster did. */
  cut = false;
  readonly #judgesCluster: boolean;
  readonly #answerHeaders: ResponseHeaders;
  #controller: Dispatcher.DispatchController | null = null;
  #held: HeldAnswer | null = null;
  #inFlight = false;
  #ended = false;
  /** Bytes of the body still to come where Content-Length says; -1 where it does not. */
  #remaining = -1;
  #onDrain: (() => void) | null = null;
  /** Bytes of the body that came, until a buffer is lent. */
  #received = 0;
  #loan: LentReads | null = null;
  #onFlushed: ((error?: Error | null) => void) | null = null;
  /** Whether lent bytes wait for the client. */
  #isFlushing = false;
  readonly #stallTimeout: number;
  #stallTimer: NodeJS.Timeout | null = null;

  constructor(request: IncomingMessage, response: ServerResponse, options: ExchangeOptions) {
    this.request = request;
    this.response = response;
    this.#stallTimeout = options.stallTimeout;
    this.#judgesCluster = options.judgesCluster;
    this.#answerHeaders = options.answerHeaders;
    response.on('close', () => this.#closed());
  }

  /** Gives the request to a cluster. May be called again after a failure. */
  send(upstream: Upstream, outgoing: OutgoingRequest): void {
    this.upstream = upstream;
    this.sent = false;
    this.answered = false;
    this.#controller = null;
    this.#inFlight = true;
    upstream.requestStarted();
    upstream.pool.dispatch(
      {
        path: upstream.basePath === '' ? outgoing.target : upstream.basePath + outgoing.target,
        method: outgoing.method as Dispatcher.HttpMethod,
        headers: outgoing.headers as string[],
        body: outgoing.body,
        headersTimeout: outgoing.headersTimeout,
      },
      this,
    );
  }

  /** The cluster failed before anything of an answer went to the client: repeat, or answer the client. */
  protected abstract failed(error: Error): void;

  /** The cluster that is asked, or answers; null before one is chosen. */
  protected abstract clusterIdentity(): ClusterIdentity | null;

  /** The exchange is over, whatever way. Called once. */
  protected abstract finished(end: ExchangeEnd): void;

  /** A request on a statement path was answered 5xx, or its connection broke before an answer. */
  protected serverFailed(_reason: string, _inARow: number): void {}

  /** Whether the answer is held until `release` or `discard`; asked once its head is there. */
  protected holds(_status: number, _headers: IncomingHttpHeaders): boolean {
    return false;
  }

  /** A part of a held answer came, or its end. */
  protected heldMore(_held: {
    readonly chunks: readonly Buffer[];
    readonly size: number;
    readonly ended: boolean;
  }): void {}

  /** Lines added to the answer's head, whose headers those of the cluster are; names and values in turn. */
  protected extraLines(_headers: IncomingHttpHeaders): readonly string[] | null {
    return null;
  }

  /** Lets the cluster wait while a held answer is looked at. */
  protected pauseHeld(): void {
    this.#controller?.pause();
  }

  /** Gives a held answer to the client and lets the rest follow. */
  protected release(): void {
    const held = this.#held;
    if (held === null || this.clientGone) return;
    this.#held = null;
    if (!this.#writeHead(held.status, held.headers, held.statusText)) return;
    for (const chunk of held.chunks) this.#write(chunk);
    if (held.ended) this.#end(null);
    this.#controller?.resume();
  }

  /** Drops a held answer: another one takes its place. */
  protected discard(): void {
    this.#held = null;
    const controller = this.#controller;
    this.#controller = null;
    this.#leave();
    controller?.abort(discarded);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.sent = true;
    if (this.clientGone) controller.abort(clientWentAway);
  }

  onResponseStarted(): void {
    this.answered = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // Informational answers (103) are the connection's own.
    if (status < 200 || controller !== this.#controller) return;
    this.status = status;
    this.upstream?.noteReachable(true);
    if (this.#judgesCluster) this.#judge(status >= 500 ? `status ${status}` : null);
    if (this.holds(status, headers)) {
      this.#held = { status, headers, statusText, chunks: [], size: 0, ended: false };
    } else this.#writeHead(status, headers, statusText);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (controller !== this.#controller) return;
    const held = this.#held;
    if (held !== null) {
      held.chunks.push(chunk);
      held.size += chunk.length;
      this.heldMore(held);
    } else if (this.#loan?.holds(chunk) === true) {
      // While others wait, nothing is gathered: a chunk that is paused at is the last of its read.
      if (this.#loan.gather(chunk) || this.#isFlushing) this.#passOnLent();
    } else {
      this.#passOnLent();
      if (!this.#write(chunk)) this.#pauseUntilDrained(controller);
      if (this.#loan === null) this.#askForLoan(chunk.length);
    }
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    if (controller !== this.#controller) return;
    this.#leave();
    const held = this.#held;
    if (held !== null) {
      held.ended = true;
      this.heldMore(held);
    } else {
      const rest = this.#loan?.take() ?? null;
      if (rest !== null) this.#write(rest);
      this.#end(trailers);
    }
    this.#loan?.over();
  }

  onResponseError(controller: Dispatcher.DispatchController | null | undefined, error: Error): void {
    // No controller: the request never got as far as a connection.
    if (controller != null && controller !== this.#controller) return;
    this.#leave();
    this.#loan?.over();
    if (this.clientGone) return;
    if (!isOwnFault(error)) {
      if (!this.sent) this.upstream?.noteReachable(false);
      else if (!this.answered && this.#judgesCluster) this.#judge(classify(error, true).reason);
    }
    if (this.response.headersSent) {
      // The status is gone already: a cut connection is the only way left to say that the answer is not whole.
      this.cut = true;
      this.response.destroy();
      return;
    }
    this.#held = null;
    this.failed(error);
  }

  /** @param failure what went wrong; null for an answer below 500 */
  #judge(failure: string | null): void {
    const { upstream } = this;
    if (upstream === null) return;
    if (failure === null) upstream.failuresInARow = 0;
    else this.serverFailed(failure, ++upstream.failuresInARow);
  }

  /** Writes the head of the answer; false where it cannot be written: the client is answered as after a failure. */
  #writeHead(status: number, headers: IncomingHttpHeaders, statusText: string | undefined): boolean {
    const length = headers['content-length'];
    this.#remaining = typeof length === 'string' ? Number(length) : -1;
    try {
      const cluster = headers['set-cookie'] === undefined ? null : this.clusterIdentity();
      const lines = this.#answerHeaders.forClient(headers, cluster);
      const extra = this.extraLines(headers);
      if (extra !== null) lines.push(...extra);
      writeClusterHead(this.response, status, statusText, lines);
      return true;
    } catch (error) {
      this.#remaining = -1;
      this.#held = null;
      const controller = this.#controller;
      this.#controller = null;
      this.#leave();
      controller?.abort(discarded);
      if (this.response.headersSent) this.response.destroy();
      else this.failed(error as Error);
      return false;
    }
  }

  /** Large answers are read into a buffer of their own, which the client's bytes are sent from. */
  #askForLoan(length: number): void {
    this.#received += length;
    if (this.#received < LENT_AFTER_BYTES || this.#ended) return;
    this.#loan = LentReads.ask(() => this.#passOnLent());
  }

  /** Sends what was gathered in the lent buffer; where the client does not take all, the cluster has to wait. */
  #passOnLent(): void {
    const bytes = this.#loan?.take() ?? null;
    if (bytes === null) return;
    const { response } = this;
    this.#onFlushed ??= (error) => this.#flushed(error);
    if (response.socket === null && this.request.httpVersionMajor === 1) {
      // Behind another answer on the client's connection (RFC 9112 §9.3.2).
      if (!this.#write(Buffer.from(bytes)) && this.#controller !== null) this.#pauseUntilDrained(this.#controller);
      return;
    }
    this.#write(bytes, this.#onFlushed);
    while (response.writableCorked > 0) response.uncork();
    if (response.writableLength === 0 || this.#ended) return;
    this.#isFlushing = true;
    this.#controller?.pause();
    this.#watchStall();
  }

  #flushed(error: Error | null | undefined): void {
    if (!this.#isFlushing || (error !== null && error !== undefined) || this.response.writableLength > 0) return;
    this.#isFlushing = false;
    this.#endStall();
    this.#controller?.resume();
  }

  #write(chunk: Buffer, flushed?: (error?: Error | null) => void): boolean {
    if (this.#remaining >= 0) {
      this.#remaining -= chunk.length;
      if (this.#remaining === 0) {
        this.#ended = true;
        this.#finishWith(chunk);
        return true;
      }
    }
    return flushed === undefined ? this.response.write(chunk) : this.response.write(chunk, flushed);
  }

  /** Writes the last bytes of an answer whose length was announced. */
  #finishWith(chunk: Buffer): void {
    const { response } = this;
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

  #end(trailers: IncomingHttpHeaders | null): void {
    if (this.#ended) return;
    this.#ended = true;
    const kept = trailers === null ? null : this.#answerHeaders.trailersForClient(trailers);
    if (kept !== null && !this.#addTrailers(kept)) return;
    this.response.end();
    if (this.response.writableLength > 0) this.#watchStall();
  }

  /** Adds trailers; where they cannot be sent the answer is cut, as it is not whole. */
  #addTrailers(trailers: IncomingHttpHeaders): boolean {
    try {
      this.response.addTrailers(trailers as Record<string, string>);
      return true;
    } catch {
      this.cut = true;
      this.response.destroy();
      return false;
    }
  }

  #pauseUntilDrained(controller: Dispatcher.DispatchController): void {
    controller.pause();
    this.#watchStall();
    this.#onDrain ??= () => {
      this.#endStall();
      this.#controller?.resume();
    };
    this.response.once('drain', this.#onDrain);
  }

  /** A client that takes nothing would hold its connection, the one to the cluster, and what waits for it, for ever. */
  #watchStall(): void {
    this.#stallTimer ??= setTimeout(() => this.response.destroy(), this.#stallTimeout).unref();
  }

  #endStall(): void {
    if (this.#stallTimer !== null) clearTimeout(this.#stallTimer);
    this.#stallTimer = null;
  }

  #leave(): void {
    if (!this.#inFlight || this.upstream === null) return;
    this.#inFlight = false;
    this.upstream.requestEnded();
  }

  #closed(): void {
    this.#endStall();
    if (this.response.writableFinished) this.#loan?.free();
    if (!this.response.writableFinished) {
      this.clientGone = true;
      this.#held = null;
      this.#controller?.abort(clientWentAway);
      this.finished(this.response.headersSent && this.status === 0 ? 'failed' : 'client_gone');
    } else this.finished(this.status === 0 ? 'failed' : 'answered');
  }
}

/** Bytes of a body after which more are expected, too many to be copied. */
const LENT_AFTER_BYTES = 12_288;

/** Node writes text up to 16 KB without a buffer of its own; head and body together stay below. */
const MAX_JOINED_BYTES = 14_336;

/** One error for all: making one a request would cost a stack trace each. */
const clientWentAway = new Error('The client went away');
const discarded = new Error('Another answer takes the place of this one');
