import type { ServerResponse } from 'node:http';
import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Refusal } from '../../routing/refusal.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import { writeClusterHead } from '../headers/clusterHead.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { classify, isOwnFault } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import type { AddedLines, AnsweringCluster } from './addedLines.ts';
import { AnswerWriter, type AnswerWriterOptions } from './answerWriter.ts';
import type { AttemptFailures } from './attemptFailures.ts';
import {
  type AttemptStage,
  type ExchangeState,
  type HeldAnswer,
  heldAnswerOf,
  isFinal,
  stageOf,
  states,
} from './exchangeState.ts';
import type { GatewayAnswers } from './gatewayAnswers.ts';
import type { OutgoingRequest, OutgoingRequests } from './outgoingRequests.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** End of an exchange, for metrics and log; `cut`: the cluster's response broke off, and with it the client's. */
export type ExchangeEnd = 'answered' | 'failed' | 'cut' | 'client_gone';

export interface ExchangeDependencies {
  readonly settings: DataPlaneSettings;
  readonly requests: OutgoingRequests;
  /** Which lines of the cluster's response the client gets. */
  readonly answerHeaders: ResponseHeaders;
  readonly addedLines: AddedLines;
  readonly failures: AttemptFailures;
  readonly answers: GatewayAnswers;
}

/**
 * One client request on its way to a cluster and back (`ExchangeState` has the steps). It is the handler that undici
 * calls for each part of the response and writes that part to the client directly: no stream in between, bytes
 * untouched, back-pressure by pausing. Subclasses say what a failure means and which responses are held until something
 * about them is known.
 */
export abstract class Exchange<Dependencies extends ExchangeDependencies> implements Dispatcher.DispatchHandler {
  protected readonly dependencies: Dependencies;
  protected readonly proxied: ProxiedRequest;
  protected readonly response: ServerResponse;
  /** Destination of the request; set by `send`. */
  upstream: Upstream | null = null;
  /** Status of the cluster's response; 0 before. */
  status = 0;
  readonly #writing: AnswerWriterOptions;
  #state: ExchangeState = states.idle;
  /** Of the attempt whose events count; null between attempts. */
  #controller: Dispatcher.DispatchController | null = null;
  #loaded: Upstream | null = null;
  /** Null until the head of a response is written. */
  #writer: AnswerWriter | null = null;

  constructor(dependencies: Dependencies, proxied: ProxiedRequest) {
    const { settings, answerHeaders } = dependencies;
    const { response } = proxied;
    this.dependencies = dependencies;
    this.proxied = proxied;
    this.response = response;
    this.#writing = { stallTimeout: settings.clientStallTimeout, answerHeaders };
    response.on('close', () => this.#onClose());
  }

  /** True if the client still waits for a response, the cluster's or the gateway's. */
  get isAwaited(): boolean {
    return !isFinal(this.#state) && !this.response.headersSent;
  }

  /** Gives the request to a cluster. May be called again after a failure. */
  send(upstream: Upstream, outgoing: OutgoingRequest): void {
    if (isFinal(this.#state)) return;
    this.upstream = upstream;
    this.#state = states.connecting;
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

  /**
   * The cluster failed before anything of a response went to the client: repeat, or answer the client.
   * @param stage how far the attempt got
   */
  protected abstract onFailure(error: Error, stage: AttemptStage): void;

  protected abstract answering(): AnsweringCluster;

  protected abstract onEnd(end: ExchangeEnd): void;

  /** A request on a statement path got a response 5xx, or its connection broke before a response. */
  protected onServerError(_reason: string, _inARow: number): void {}

  /** True if the response is held until `release` or `discard`; asked once its head is there. */
  protected holds(_status: number, _headers: IncomingHttpHeaders): boolean {
    return false;
  }

  /** A part of a held response came, or its end. Called until `decide`, `release` or `discard`. */
  protected inspect(_answer: Readonly<HeldAnswer>): void {}

  refuse(refusal: Refusal): void {
    this.dependencies.answers.refuse(this.proxied, refusal);
  }

  /** A decision about the held response begins: what still comes of it is only kept. */
  protected decide(): void {
    const answer = heldAnswerOf(this.#state);
    if (answer !== null) answer.at = 'deciding';
  }

  /** Lets the cluster wait while a held response is decided about. */
  pauseAnswer(): void {
    this.#controller?.pause();
  }

  /** Gives a held response to the client and lets the rest follow. */
  release(): void {
    const answer = heldAnswerOf(this.#state);
    if (answer === null) return;
    const writer = this.#writeHead(answer.status, answer.headers, answer.statusText);
    if (writer === null) return;
    for (const chunk of answer.chunks) writer.write(chunk);
    if (answer.isWhole) this.#end(writer, null);
    this.#controller?.resume();
  }

  /** Drops a held response: another one takes its place. */
  protected discard(): void {
    if (!isFinal(this.#state)) this.#state = states.dropped;
    this.#drop();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (isFinal(this.#state)) controller.abort(clientWentAway);
    else this.#state = states.sent;
  }

  onResponseStarted(): void {
    if (this.#state.at === 'sent') this.#state = states.answering;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // Informational responses (103) are the connection's own.
    if (status < 200 || controller !== this.#controller || isFinal(this.#state)) return;
    this.status = status;
    this.upstream?.noteReachable(true);
    if (this.proxied.statementPath) this.#judge(status >= 500 ? `status ${status}` : null);
    if (this.holds(status, headers)) {
      this.#state = { at: 'gathering', status, headers, statusText, chunks: [], size: 0, isWhole: false };
    } else this.#writeHead(status, headers, statusText);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (controller !== this.#controller) return;
    const answer = heldAnswerOf(this.#state);
    if (answer === null) {
      this.#writer?.pass(chunk);
      return;
    }
    answer.chunks.push(chunk);
    answer.size += chunk.length;
    if (answer.at === 'gathering') this.inspect(answer);
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    if (controller !== this.#controller) return;
    this.#unload();
    const answer = heldAnswerOf(this.#state);
    if (answer === null) {
      if (this.#writer !== null) this.#end(this.#writer, trailers);
      return;
    }
    answer.isWhole = true;
    if (answer.at === 'gathering') this.inspect(answer);
  }

  onResponseError(controller: Dispatcher.DispatchController | null | undefined, error: Error): void {
    // No controller: the request never got as far as a connection.
    if (controller != null && controller !== this.#controller) return;
    this.#unload();
    this.#writer?.onBreak();
    if (isFinal(this.#state)) return;
    const stage = stageOf(this.#state);
    if (!isOwnFault(error)) {
      if (stage === 'connecting') this.upstream?.noteReachable(false);
      else if (stage === 'sent' && this.proxied.statementPath) this.#judge(classify(error, true).reason);
    }
    if (this.response.headersSent) this.#cut();
    else {
      this.#state = states.failed;
      this.onFailure(error, stage);
    }
  }

  /** @param failure what went wrong; null for a response below 500 */
  #judge(failure: string | null): void {
    const { upstream } = this;
    if (upstream === null) return;
    if (failure === null) upstream.failuresInARow = 0;
    else this.onServerError(failure, ++upstream.failuresInARow);
  }

  /** Writes the head of the response; null if it cannot be written: the client gets a response as after a failure. */
  #writeHead(status: number, headers: IncomingHttpHeaders, statusText: string | undefined): AnswerWriter | null {
    const { proxied, response } = this;
    const { addedLines } = this.dependencies;
    try {
      const lines = this.#writing.answerHeaders.forClient(headers, proxied.clientPrefixes);
      if (addedLines.areWanted()) {
        const answer = { status, headers, host: this.upstream?.hostname ?? '' };
        lines.push(...addedLines.of(proxied, answer, this.answering()));
      }
      writeClusterHead(response, status, statusText, lines);
    } catch (error) {
      this.#state = states.failed;
      this.#drop();
      if (response.headersSent) response.destroy();
      else this.onFailure(error as Error, 'answering');
      return null;
    }
    this.#state = states.passing;
    this.#writer = new AnswerWriter(
      proxied.request,
      response,
      this.#controller,
      headers['content-length'],
      this.#writing,
    );
    return this.#writer;
  }

  #end(writer: AnswerWriter, trailers: IncomingHttpHeaders | null): void {
    if (!writer.end(trailers)) this.#cut();
  }

  /** The status is gone already: a cut connection is the only way left to say that the response is not whole. */
  #cut(): void {
    this.#state = states.cut;
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

  #onClose(): void {
    this.#writer?.onClose();
    if (this.response.writableFinished) {
      this.onEnd(this.status === 0 ? 'failed' : 'answered');
      return;
    }
    const end = this.#state.at === 'cut' ? 'cut' : 'client_gone';
    if (end === 'client_gone') this.#state = states.gone;
    this.#controller?.abort(clientWentAway);
    this.onEnd(this.response.headersSent && this.status === 0 ? 'failed' : end);
  }
}

/** One error for all: making one a request would cost a stack trace each. */
const clientWentAway = new Error('The client went away');
const dropped = new Error('Another answer takes the place of this one');
