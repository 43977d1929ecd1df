import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Refusal } from '../../routing/refusal.ts';
import { BodyRelay, tooLargeBody } from '../bodies/requestBodies.ts';
import type { ExchangeParts } from '../dataPlane.ts';
import type { Destination, OutgoingRequest, ProxiedRequest } from '../proxiedRequest.ts';
import { classify, isHeadTooLarge, isOwnFault, LentReads, type Upstream } from '../upstreams/upstreams.ts';
import {
  addedLines,
  type RespondingCluster,
  type ResponseHeaders,
  responseHeadTooLarge,
  writeClusterHead,
} from './responses.ts';
import type { ResponseWatch } from './responseWatch.ts';

/** End of an exchange, for metrics and log; `cut`: the cluster's response broke off, and with it the client's. */
export type ExchangeEnd = 'answered' | 'failed' | 'cut' | 'client_gone';

/**
 * Progress of a request at a cluster:
 * - `connecting`: given to the pool, and not written to a connection;
 * - `sent`: written to a connection, without a byte of a response;
 * - `responding`: at least the first byte of a response arrived.
 */
export type AttemptStage = 'connecting' | 'sent' | 'responding';

/** An attempt that failed before the client had anything of a response. */
export interface AttemptFailure {
  readonly error: Error;
  readonly stage: AttemptStage;
  readonly reason: string;
}

/** A buffered response that has not been forwarded yet. */
export interface BufferedResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly statusText: string | undefined;
  readonly chunks: Buffer[];
  /** Bytes of the chunks. */
  size: number;
  /** True if the end of the response came. */
  isWhole: boolean;
  /** True if the decision is on its way: parts are only kept. */
  isDeciding: boolean;
}

/**
 * State of an exchange:
 *
 * ```
 *          ┌──────────── send ─────────────┐
 *          ▼                               │
 *  idle ─▶ connecting ─▶ sent ─▶ responding┼───▶ holding ─▶ passing
 *              │          │         │      │        │          │
 *              └──────────┴─ error ─┴──────┼────────┤          ▼
 *                                        failed   dropped     cut
 * ```
 *
 * `holding`: the response is buffered. `failed`: the attempt failed before the client had anything; it is sent again,
 * or the gateway responds. `dropped`: a buffered response is replaced by another one. `passing`: the client gets the
 * response. `cut`: the rest of it could not be sent. From each of them the exchange becomes `gone` when the client
 * disconnects, except from `cut`. `cut` and `gone` are final.
 */
type State = 'idle' | AttemptStage | 'holding' | 'passing' | 'failed' | 'dropped' | 'cut' | 'gone';

/**
 * One client request on its way to a cluster and back. It is the handler that undici calls for each part of the response
 * and writes that part to the client directly: no stream in between, bytes untouched, back-pressure by pausing. Subclasses
 * say what a failure means and which responses are held until something about them is known.
 */
export abstract class Exchange implements Dispatcher.DispatchHandler {
  protected readonly parts: ExchangeParts;
  protected readonly proxied: ProxiedRequest;
  protected readonly response: ServerResponse;
  /** The cluster that is asked. */
  protected destination: Destination = nowhere;
  /** Connections to it; set by `send`. */
  protected upstream: Upstream | null = null;
  /** Status of responses that are held without a call of `holds`; 0: of none. */
  protected readonly heldStatus: number = 0;
  /** Reads a response about a query as it comes; null for all others, and after its end. */
  protected watch: ResponseWatch | null = null;
  /** Status of the cluster's response; 0 before. */
  protected status = 0;
  /** True if the client's body is larger than `server.maxBodySize`. */
  #isBodyTooLarge = false;
  #state: State = 'idle';
  /** True in the states `gone` and `cut`. */
  #isFinal = false;
  /** In state `holding`; null in all others. */
  #buffered: BufferedResponse | null = null;
  /** Of the attempt whose events count; null between attempts. */
  #controller: Dispatcher.DispatchController | null = null;
  #loaded: Upstream | null = null;
  /** Null until the head of a response is written. */
  #writer: ResponseWriter | null = null;

  constructor(parts: ExchangeParts, proxied: ProxiedRequest) {
    this.parts = parts;
    this.proxied = proxied;
    this.response = proxied.response;
    this.response.on('close', this.#onClose);
  }

  /** True if the client still waits for a response, the cluster's or the gateway's. */
  protected get isAwaited(): boolean {
    return !this.#isFinal && !this.response.headersSent;
  }

  /** The body of the request on its way to a cluster. @param start what was read of it; null for nothing */
  protected relay(start: Buffer | null): BodyRelay {
    return new BodyRelay(this.proxied.request, start, this.parts.settings.maxBodySize, () => {
      this.#isBodyTooLarge = true;
    });
  }

  /** Gives the request to a cluster. May be called again after a failure. */
  protected send(upstream: Upstream, outgoing: OutgoingRequest): void {
    if (this.#isFinal) return;
    this.upstream = upstream;
    this.#become('connecting');
    this.#controller = null;
    this.#loaded = upstream;
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

  /** The query that the request is about; null for none. */
  protected abstract queryId(): string | null;

  /** The cluster failed before anything of a response went to the client: repeat, or respond to the client. */
  protected abstract onFailure(failure: AttemptFailure): void;

  protected abstract respondingCluster(): RespondingCluster;

  protected abstract onEnd(end: ExchangeEnd): void;

  /** True if the response is held until `release` or `discard`; asked once its head is there. */
  protected holds(_status: number, _headers: IncomingHttpHeaders): boolean {
    return false;
  }

  /** A part of a held response came, or its end. Called until it sets `isDeciding`, or `release` or `discard` is called. */
  protected inspect(_buffered: BufferedResponse): void {}

  reject(refusal: Refusal): void {
    this.parts.responses.reject(this.proxied, refusal);
  }

  /** Notes a failed attempt, and rejects the request or continues. @param stage how far the attempt got */
  protected fail(error: Error, stage: AttemptStage): void {
    const { settings, metrics, logger, reports } = this.parts;
    const { name: cluster, proxyTo } = this.destination;
    if (this.#isBodyTooLarge) {
      this.reject(tooLargeBody(settings.maxBodySize));
      return;
    }
    const { type, reason } = classify(error, stage !== 'connecting');
    metrics.clusterError(cluster, type);
    this.proxied.trace?.noteFailure(reason);
    logger.debug({ cluster, proxyTo, err: error }, 'cluster did not respond');
    if (isHeadTooLarge(error)) {
      this.reject(responseHeadTooLarge(cluster, this.queryId()));
      return;
    }
    if (stage === 'connecting' && !isOwnFault(error)) reports.connectionFailed(cluster, proxyTo, reason);
    this.onFailure({ error, stage, reason });
  }

  /** Lets the cluster wait while a held response is decided about. */
  protected pauseResponse(): void {
    this.#controller?.pause();
  }

  /** Gives a held response to the client and lets the rest follow. */
  protected release(): void {
    const buffered = this.#buffered;
    if (buffered === null) return;
    const writer = this.#writeHead(buffered.status, buffered.headers, buffered.statusText);
    if (writer === null) return;
    for (const chunk of buffered.chunks) writer.write(chunk);
    if (buffered.isWhole && !writer.end(null)) this.#cut();
    this.#controller?.resume();
  }

  /** Replaces the body of a whole response that is held. */
  protected replaceBody(buffered: BufferedResponse, body: Buffer): void {
    buffered.headers['content-length'] = String(body.length);
    buffered.chunks.splice(0, buffered.chunks.length, body);
  }

  /** Drops a held response: another one takes its place. */
  protected discard(): void {
    if (!this.#isFinal) this.#become('dropped');
    this.#drop();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isFinal) controller.abort(clientWentAway);
    else this.#become('sent');
  }

  onResponseStarted(): void {
    if (this.#state === 'sent') this.#become('responding');
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // Informational responses (103) are the connection's own.
    if (status < 200 || controller !== this.#controller || this.#isFinal) return;
    this.status = status;
    const { upstream } = this;
    if (upstream !== null) {
      upstream.unreachableSince = null;
      upstream.lastResponded = this.parts.clock.monotonic();
      if (status >= 500 && this.proxied.statementPath) this.#noteServerFailure(`status ${status}`);
      else if (this.proxied.statementPath) upstream.failuresInARow = 0;
    }
    if (status === this.heldStatus || this.holds(status, headers)) {
      this.#become('holding');
      this.#buffered = { status, headers, statusText, chunks: [], size: 0, isWhole: false, isDeciding: false };
    } else this.#writeHead(status, headers, statusText);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (controller !== this.#controller) return;
    this.watch?.data(chunk);
    const buffered = this.#buffered;
    if (buffered === null) {
      this.#writer?.pass(chunk);
      return;
    }
    buffered.chunks.push(chunk);
    buffered.size += chunk.length;
    if (!buffered.isDeciding) this.inspect(buffered);
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    if (controller !== this.#controller) return;
    const buffered = this.#buffered;
    if (buffered === null && this.#writer?.end(trailers) === false) this.#cut();
    const { watch } = this;
    this.watch = null;
    watch?.end();
    const loaded = this.#loaded;
    this.#loaded = null;
    loaded?.requestEnded();
    if (buffered === null) return;
    buffered.isWhole = true;
    if (!buffered.isDeciding) this.inspect(buffered);
  }

  onResponseError(controller: Dispatcher.DispatchController | null | undefined, error: Error): void {
    // No controller: the request never got as far as a connection.
    if (controller != null && controller !== this.#controller) return;
    this.#unload();
    this.#writer?.onBreak();
    if (this.#isFinal) return;
    const state = this.#state;
    const stage = state === 'connecting' || state === 'sent' ? state : 'responding';
    if (!isOwnFault(error)) {
      if (stage === 'connecting' && this.upstream !== null) {
        this.upstream.unreachableSince ??= this.parts.clock.monotonic();
      } else if (stage === 'sent' && this.proxied.statementPath) this.#noteServerFailure(classify(error, true).reason);
    }
    if (this.response.headersSent) this.#cut();
    else {
      this.#become('failed');
      this.fail(error, stage);
    }
  }

  #become(state: State): void {
    this.#state = state;
    this.#isFinal = state === 'gone' || state === 'cut';
    this.#buffered = null;
  }

  /** Reports the failure of a request on a statement path. */
  #noteServerFailure(failure: string): void {
    if (this.upstream === null) return;
    const { name, proxyTo } = this.destination;
    this.parts.reports.serverFailed(name, proxyTo, failure, ++this.upstream.failuresInARow);
  }

  /** Writes the head of the response; null if it cannot be written: the client gets a response as after a failure. */
  #writeHead(status: number, headers: IncomingHttpHeaders, statusText: string | undefined): ResponseWriter | null {
    const { proxied, response, parts } = this;
    try {
      const lines = parts.responseHeaders.forClient(headers, proxied.clientPrefixes);
      if (parts.addsLines) {
        lines.push(...addedLines(parts, proxied, headers, this.upstream?.hostname ?? '', this.respondingCluster()));
      }
      writeClusterHead(response, status, statusText, lines);
    } catch (error) {
      this.#become('failed');
      this.#drop();
      if (response.headersSent) response.destroy();
      else this.fail(error as Error, 'responding');
      return null;
    }
    this.#become('passing');
    const { settings, responseHeaders } = parts;
    this.#writer = new ResponseWriter(
      proxied.request,
      response,
      this.#controller,
      headers['content-length'],
      settings.clientStallTimeout,
      responseHeaders,
    );
    return this.#writer;
  }

  /** The status is gone already: a cut connection is the only way left to say that the response is not whole. */
  #cut(): void {
    this.#become('cut');
    this.response.destroy();
  }

  /** Ends the attempt at the cluster; what still comes of it does not count. */
  #drop(): void {
    const controller = this.#controller;
    this.#controller = null;
    this.#unload();
    controller?.abort(dropped);
  }

  #unload(): void {
    const upstream = this.#loaded;
    this.#loaded = null;
    upstream?.requestEnded();
  }

  readonly #onClose = (): void => {
    this.#writer?.onClose();
    if (this.response.writableFinished) {
      this.onEnd(this.status === 0 ? 'failed' : 'answered');
      return;
    }
    const end = this.#state === 'cut' ? 'cut' : 'client_gone';
    if (end === 'client_gone') this.#become('gone');
    this.#controller?.abort(clientWentAway);
    this.onEnd(this.response.headersSent && this.status === 0 ? 'failed' : end);
  };
}

/** Before a cluster is chosen. */
export const nowhere: Destination = { name: '', proxyTo: '' };

/** One error for all: making one a request would cost a stack trace each. */
const clientWentAway = new Error('The client went away');
const dropped = new Error('Another answer takes the place of this one');

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
   * @param contentLength of the response; undefined if its head has none
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
    if (this.#stallTimer !== null) this.#endStall();
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

/** Node writes text up to 16 KB without an additional buffer; head and body together stay below. */
const MAX_JOINED_BYTES = 14_336;
