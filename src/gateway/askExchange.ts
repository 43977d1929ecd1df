import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ClusterEntry } from '../routing/routingTable.ts';
import { classify } from './clusterError.ts';
import { tellingPrefix } from './clusterKeys.ts';
import type { DataPlaneContext, ProxiedRequest } from './dataPlaneContext.ts';
import { Exchange, type ExchangeEnd } from './exchange.ts';
import type { QueryOwner } from './stickiness.ts';
import type { Upstream } from './upstreams.ts';

/** What came of a question to all clusters; `undecided` where others may get another answer. */
export type Asked = QueryOwner | 'unknown' | 'undecided';

/**
 * Sends a client's own request for an unknown query id to all clusters at once. The first answer that is no redirect,
 * 401, 403, 404 or 410 wins and is the client's answer; the others are cancelled (design.md, fixed point 7). Where nobody
 * wins, an answer that asks for credentials, or leads to a login, is the client's: with them somebody may know the query.
 *
 * A winner is remembered as the query's owner where the path names the query. A page such as `/ui/query.html?ID` is the
 * same on every cluster: it tells nothing of the query in its query string.
 *
 * While the database cannot tell, nobody's knowing the query proves nothing: its cluster may have been added to another
 * replica's table, or deleted from this one's. The client is then asked to come again.
 */
export class AskExchange extends Exchange {
  readonly #context: DataPlaneContext;
  readonly #proxied: ProxiedRequest;
  readonly #queryId: string;
  readonly #conclusive: boolean;
  readonly #proof: boolean;
  readonly #told: (asked: Asked) => void;
  #questions: Question[] = [];
  #winner: Question | null = null;
  #open = 0;
  #anyAnswer = false;
  #isTold = false;

  /**
   * @param conclusive whether the database does not know the query; false: it could not tell
   * @param proof whether an answer shows that the cluster knows the query
   * @param told called once
   */
  constructor(
    context: DataPlaneContext,
    proxied: ProxiedRequest,
    queryId: string,
    conclusive: boolean,
    proof: boolean,
    told: (asked: Asked) => void,
  ) {
    // All clusters are asked: their answers tell nothing of one's health.
    super(proxied.request, proxied.response, {
      stallTimeout: context.settings().clientStallTimeout,
      judgesCluster: false,
    });
    this.#context = context;
    this.#proxied = proxied;
    this.#queryId = queryId;
    this.#conclusive = conclusive;
    this.#proof = proof;
    this.#told = told;
  }

  /** Asks the clusters. */
  ask(clusters: Iterable<ClusterEntry>): void {
    const { upstreams, headers, settings } = this.#context;
    const { trace } = this.#proxied;
    trace?.step('ask clusters');
    const lines = [...headers.forCluster(this.request, false, null), ...(trace?.headers() ?? [])];
    const asked = new Set<Upstream>();
    for (const cluster of clusters) {
      const upstream = upstreams.get(cluster.proxyTo);
      if (upstream === null || asked.has(upstream)) continue;
      asked.add(upstream);
      this.#questions.push(new Question(this, cluster, upstream));
    }
    this.#open = this.#questions.length;
    if (this.#open === 0) {
      this.#nobody();
      return;
    }
    for (const question of this.#questions) {
      question.ask({
        path: question.upstream.basePath + this.#proxied.rawTarget,
        method: this.#proxied.method as Dispatcher.HttpMethod,
        headers: (this.#proxied.statementPath
          ? tellingPrefix(this.#context, lines, question.cluster.name)
          : lines) as string[],
        headersTimeout: settings().asyncTimeout,
      });
    }
  }

  /** A question found a cluster that knows the query; true when it is the first. */
  won(question: Question): boolean {
    if (this.#winner !== null || this.clientGone) return false;
    this.#take(question);
    const owner = { cluster: question.cluster.name, baseUrl: question.cluster.proxyTo };
    if (this.#proof) void this.#context.stickiness.learn(this.#queryId, owner);
    this.#tell(owner);
    return true;
  }

  /** A question is over without a winner's answer. */
  settled(failure: Error | null, question: Question): void {
    if (failure === null) this.#anyAnswer = true;
    else {
      const { type } = classify(failure, question.sent);
      this.#context.metrics.clusterError(question.cluster.name, type);
    }
    this.#open--;
    if (this.#open > 0 || this.#winner !== null || this.clientGone) return;
    const candidate = this.#questions.find((one) => one.kept !== null);
    // A statement's client takes a question for credentials for the end of its query.
    if (candidate?.kept == null || (!this.#conclusive && this.#proxied.statementPath)) this.#nobody();
    else {
      const { controller, status, headers, statusText } = candidate.kept;
      this.#take(candidate);
      this.#tell('undecided');
      this.adopt(candidate.upstream, controller);
      this.onResponseStart(controller, status, headers, statusText);
      // Later, as this may run within the parser of another connection, of which undici has but one at a time.
      queueMicrotask(() => controller.resume());
    }
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] {
    if (this.#winner === null) return [];
    return this.#context.handshakes?.linesOfLogin(headers, this.#winner.cluster.name) ?? [];
  }

  protected override failed(error: Error): void {
    this.#context.answerFailure(this.#proxied, error, this.answered);
  }

  protected override finished(end: ExchangeEnd): void {
    if (end === 'client_gone') for (const question of this.#questions) question.cancel();
    this.#tell('undecided');
    this.#context.noteEnd(this.#proxied, end === 'client_gone' ? 0 : this.response.statusCode, this.status);
  }

  #take(question: Question): void {
    this.#winner = question;
    for (const other of this.#questions) if (other !== question) other.cancel();
    this.#questions = [question];
  }

  #nobody(): void {
    for (const question of this.#questions) question.cancel();
    if (this.#questions.length > 0 && !this.#anyAnswer) {
      // Nobody could be asked: whether the query exists is not known, so clients may try again.
      this.#tell('undecided');
      this.#context.answerFailure(this.#proxied, new Error('no cluster could be asked'), false);
      return;
    }
    if (!this.#conclusive) {
      this.#tell('undecided');
      this.#context.refuse(this.#proxied, undecidedQuery(this.#queryId));
      return;
    }
    this.#tell('unknown');
    if (this.#proof) this.#context.stickiness.noteMiss(this.#queryId);
    this.#context.refuse(this.#proxied, unknownQuery(this.#queryId));
  }

  #tell(asked: Asked): void {
    if (this.#isTold) return;
    this.#isTold = true;
    this.#told(asked);
  }
}

/** The refusal of a request for a query that nobody knows. */
export function unknownQuery(queryId: string) {
  return {
    reason: 'unknown_query' as const,
    message: `Query ${queryId.slice(0, 256)} is not known to any cluster behind this gateway.`,
    queryId,
  };
}

/** The refusal of a request for a query of which cannot be told now whether somebody knows it. */
export function undecidedQuery(queryId: string) {
  return {
    reason: 'undecided_query' as const,
    message: `Which cluster runs query ${queryId.slice(0, 256)} cannot be told at the moment; ask again in a second.`,
    queryId,
  };
}

const noAnswer = new Error('Another cluster knows the query');

interface Kept {
  readonly controller: Dispatcher.DispatchController;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly statusText: string | undefined;
}

/** The question to one cluster. */
class Question implements Dispatcher.DispatchHandler {
  readonly cluster: ClusterEntry;
  readonly upstream: Upstream;
  readonly #exchange: AskExchange;
  /** An answer that asks for credentials, waiting for the others. */
  kept: Kept | null = null;
  sent = false;
  #controller: Dispatcher.DispatchController | null = null;
  #isWinner = false;
  #isSettled = false;
  #cancelled = false;

  constructor(exchange: AskExchange, cluster: ClusterEntry, upstream: Upstream) {
    this.#exchange = exchange;
    this.cluster = cluster;
    this.upstream = upstream;
  }

  ask(options: Dispatcher.DispatchOptions): void {
    this.upstream.inFlight++;
    this.upstream.pool.dispatch(options, this);
  }

  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#controller?.abort(noAnswer);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.sent = true;
    if (this.#cancelled) controller.abort(noAnswer);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    if (status < 200 || this.#cancelled) return;
    // A redirect leads to a login: it comes before the query is looked at.
    if (status === 401 || status === 403 || (status >= 300 && status < 400)) {
      this.kept = { controller, status, headers, statusText };
      this.#isWinner = true;
      controller.pause();
      this.#settle(null);
      return;
    }
    if (status === 404 || status === 410) {
      this.#settle(null);
      this.cancel();
      return;
    }
    if (!this.#exchange.won(this)) {
      this.cancel();
      return;
    }
    this.#isWinner = true;
    this.#isSettled = true;
    this.#exchange.adopt(this.upstream, controller);
    this.#exchange.onResponseStart(controller, status, headers, statusText);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isWinner) this.#exchange.onResponseData(controller, chunk);
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.upstream.inFlight--;
    if (this.#isWinner) this.#exchange.onResponseEnd(controller, trailers);
  }

  onResponseError(controller: Dispatcher.DispatchController | null, error: Error): void {
    this.upstream.inFlight--;
    if (!this.sent) this.upstream.noteReachable(false);
    if (this.#isWinner && !this.#cancelled) this.#exchange.onResponseError(controller, error);
    else this.#settle(error);
  }

  #settle(failure: Error | null): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#exchange.settled(failure, this);
  }
}
