import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { firstHeader } from '../model/rawHeaders.ts';
import type { RequestUser } from '../model/requestUser.ts';
import { type ClusterChoice, explainNoCluster } from '../routing/clusterChoice.ts';
import { type GroupDecision, setHeadersOf } from '../routing/groupDecision.ts';
import type { CountedSubmission } from '../routing/localLoad.ts';
import type { Refusal } from '../routing/refusal.ts';
import type { ClusterEntry } from '../routing/routingTable.ts';
import type { FailedAttempt } from '../routing/storedDecision.ts';
import { decodeStart, findId, MAX_HELD_BYTES } from './answerId.ts';
import { namesNext } from './answerWatch.ts';
import { BodyRelay, type BodyStart } from './body.ts';
import { classify, isOwnFault, isReset } from './clusterError.ts';
import { tellingPrefix } from './clusterKeys.ts';
import type { DataPlaneContext, ProxiedRequest } from './dataPlaneContext.ts';
import { decisionText } from './decisionText.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
import { explainLine } from './explain.ts';
import { overloaded, tooLarge, unreachableOwner } from './forwardExchange.ts';
import type { Upstream } from './upstreams.ts';

/** What is known of a submission when it is sent. */
export interface Submission {
  readonly body: BodyStart;
  readonly user: RequestUser;
  readonly decision: GroupDecision;
  /** The query that the statement is about (kill_query): it goes to that query's cluster; null for all others. */
  readonly about: { readonly queryId: string; readonly cluster: ClusterEntry } | null;
}

/** A submission: repeated on another cluster while that is safe, its query id learned before the client sees it. */
export class SubmissionExchange extends Exchange {
  readonly #context: DataPlaneContext;
  readonly #proxied: ProxiedRequest;
  readonly #submission: Submission;
  readonly #outgoing: OutgoingRequest;
  #cluster: ClusterEntry | null = null;
  #fallback = false;
  #attempts: FailedAttempt[] | null = null;
  #queryId: string | null = null;
  /** Its part in the cluster's load, where that is counted. */
  #counted: CountedSubmission | null = null;
  #encoding = '';
  #learning = false;
  #tooLarge = false;
  /** Why the gateway refused it in the end; null when a cluster answered, or failed to. */
  #refused: Refusal['reason'] | null = null;
  #headers: IncomingHttpHeaders | null = null;

  constructor(context: DataPlaneContext, proxied: ProxiedRequest, submission: Submission) {
    super(proxied.request, proxied.response, {
      stallTimeout: context.settings().clientStallTimeout,
      judgesCluster: proxied.statementPath,
    });
    this.#context = context;
    this.#proxied = proxied;
    this.#submission = submission;
    const { body } = submission;
    const settings = context.settings();
    this.#outgoing = {
      method: proxied.method,
      target: proxied.rawTarget,
      headers: context.headers.forCluster(proxied.request, true, setHeadersOf(submission.decision)),
      body: body.complete
        ? body.bytes
        : new BodyRelay(proxied.request, body.bytes, settings.maxBodySize, () => {
            this.#tooLarge = true;
          }),
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** Chooses a cluster and sends the submission there, or refuses it. */
  start(): void {
    const { about } = this.#submission;
    if (about === null) this.#next(null);
    else this.#go(about.cluster, this.#context.upstreams.get(about.cluster.proxyTo), false);
  }

  #next(excluded: ReadonlyMap<string, string> | null): void {
    const { table, chooser, upstreams } = this.#context;
    const { decision, user } = this.#submission;
    this.#proxied.trace?.step('choice');
    const choice = chooser.choose(table.current, decision, user.user, excluded);
    if (choice.cluster === null) this.#refuseNoCluster(choice);
    else this.#go(choice.cluster, upstreams.get(choice.cluster.proxyTo), choice.fallback);
  }

  #go(cluster: ClusterEntry, upstream: Upstream | null, fallback: boolean): void {
    this.#cluster = cluster;
    this.#fallback = fallback;
    if (upstream === null) this.failed(new Error(`proxyTo ${cluster.proxyTo} is no HTTP URL`));
    else if (upstream.overloaded) this.#refuse(overloaded(cluster.name));
    else {
      this.#counted = this.#context.chooser.submitted(cluster, this.#submission.user.user);
      this.send(upstream, this.#outgoingTo(cluster));
    }
  }

  #outgoingTo({ name, proxyTo }: ClusterEntry): OutgoingRequest {
    const { trace } = this.#proxied;
    if (this.#context.prefixes === null && trace === null) return this.#outgoing;
    const headers = tellingPrefix(this.#context, this.#outgoing.headers, name);
    return { ...this.#outgoing, headers: trace === null ? headers : [...headers, ...trace.toCluster(name, proxyTo)] };
  }

  #refuse(refusal: Refusal): void {
    this.#refused = refusal.reason;
    this.#context.refuse(this.#proxied, refusal);
  }

  #refuseNoCluster(choice: ClusterChoice & { cluster: null }): void {
    const { decision } = this.#submission;
    this.#refuse({
      reason: choice.pending ? 'pending' : 'no_cluster',
      message: explainNoCluster(decision, choice.notTaken, this.#context.settings().defaultRoutingGroup),
      queryId: null,
    });
  }

  protected override failed(error: Error): void {
    this.#counted?.withdraw();
    const cluster = this.#cluster;
    if (cluster === null) return;
    if (this.#tooLarge) {
      this.#refuse(tooLarge(this.#context.settings().maxBodySize));
      return;
    }
    const { type, reason } = classify(error, this.sent);
    this.#context.metrics.clusterError(cluster.name, type);
    this.#proxied.trace?.failed(reason);
    this.#attempts ??= [];
    this.#attempts.push({ cluster: cluster.name, error: reason });
    if (!this.sent && !isOwnFault(error)) this.#context.connectionFailed(cluster.name, cluster.proxyTo, reason);
    const { about } = this.#submission;
    if (about !== null && !this.sent && !isOwnFault(error)) {
      this.#refuse(unreachableOwner(about.queryId, cluster.name, reason));
      return;
    }
    if (!this.#mayRepeat(error)) {
      this.#context.answerFailure(this.#proxied, error, this.answered);
      return;
    }
    this.#context.metrics.retry(cluster.name);
    this.#next(new Map(this.#attempts.map((attempt) => [attempt.cluster, attempt.error])));
  }

  /** design.md, fixed point 8. */
  #mayRepeat(error: Error): boolean {
    if (this.#submission.about !== null || !this.#submission.body.complete || isOwnFault(error)) return false;
    if (!this.sent) return true;
    return this.#context.settings().retrySubmissions === 'untilAnswered' && !this.answered && isReset(error);
  }

  protected override serverFailed(reason: string, inARow: number): void {
    const cluster = this.#cluster;
    if (cluster !== null) this.#context.serverFailed(cluster.name, cluster.proxyTo, reason, inARow);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    this.#headers = headers;
    if (status === 406 && this.#cluster !== null) {
      this.#context.forwardedCheck.refused(this.#cluster.name, this.#cluster.proxyTo);
    }
    if (status !== 200) return false;
    const encoding = headers['content-encoding'];
    this.#encoding = typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
    return true;
  }

  protected override heldMore(held: {
    readonly chunks: readonly Buffer[];
    readonly size: number;
    readonly ended: boolean;
  }): void {
    if (this.#learning) return;
    const text = this.#textOf(held.chunks);
    const found = text === null ? 'absent' : findId(text);
    if (found === 'incomplete' && !held.ended && held.size < MAX_HELD_BYTES) return;
    this.#learning = true;
    if (typeof found === 'string' || text === null || this.#cluster === null) {
      this.release();
      return;
    }
    const cluster = this.#cluster;
    this.#queryId = found.id;
    this.#counted?.accepted();
    if (this.#context.settings().forwardedHeadersEnabled && this.#context.forwardedCheck.due(cluster.proxyTo)) {
      this.#context.forwardedCheck.answered(
        cluster.name,
        cluster.proxyTo,
        text,
        this.#context.headers.clientOf(this.request),
      );
    }
    if (!held.ended || namesNext(text)) this.#context.runningQueries?.seen(found.id, cluster.name, true);
    const stored = this.#context.stickiness.learn(found.id, { cluster: cluster.name, baseUrl: cluster.proxyTo });
    if (stored === null) {
      this.release();
      this.#record(found.id, cluster);
    } else {
      this.pauseHeld();
      void stored.then(() => {
        this.release();
        this.#record(found.id, cluster);
      });
    }
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { handshakes, settings } = this.#context;
    const { explainHeader, includeClusterHostInResponse } = settings();
    if (handshakes === null && !explainHeader && !includeClusterHostInResponse) return null;
    const lines = [...(handshakes?.linesOfLogin(headers, this.#cluster?.name ?? '') ?? [])];
    if (explainHeader && this.#cluster !== null) {
      lines.push(...explainLine(this.#context.names, this.#submission.decision, this.#cluster.name, this.#fallback));
    }
    if (includeClusterHostInResponse && this.upstream !== null) {
      lines.push('Set-Cookie', `${this.#context.names.clusterHostCookie}=${this.upstream.hostname}`);
    }
    return lines;
  }

  protected override finished(end: ExchangeEnd): void {
    // One that never got an id is no query of the cluster; without effect for all others.
    this.#counted?.withdraw();
    const status = end === 'client_gone' ? 0 : this.response.statusCode;
    const { decision, user, body } = this.#submission;
    this.#proxied.trace?.note({
      'engine_gateway.routing_group': decision.group,
      'engine_gateway.decided_by': decision.decidedBy,
      ...(decision.rule === null ? {} : { 'engine_gateway.rule': decision.rule }),
      ...(this.#queryId === null ? {} : { 'engine_gateway.query_id': this.#queryId }),
    });
    this.#context.noteEnd(this.#proxied, status, this.status);
    const { logger, settings, names, clock } = this.#context;
    logger.info(
      {
        queryId: this.#queryId,
        group: decision.group,
        decidedBy: decision.decidedBy,
        rule: decision.rule ?? undefined,
        cluster: this.#cluster?.name,
        fallback: this.#fallback || undefined,
        attempts: this.#attempts ?? undefined,
        refused: this.#refused ?? undefined,
        user: user.user,
        source: firstHeader(this.request.rawHeaders, names.headerKey('Source')),
        status: status === 0 ? 'client_gone' : status,
        durationMs: Math.round(clock.monotonic() - this.#proxied.startedAt),
        queryText: settings().logQueryText ? body.text : undefined,
      },
      'query',
    );
  }

  #textOf(chunks: readonly Buffer[]): string | null {
    let bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (this.#encoding !== '') {
      const decoded = decodeStart(bytes, this.#encoding);
      if (decoded === null) return null;
      bytes = decoded;
    } else if (this.#headers?.['content-type'] === undefined && bytes[0] !== 0x7b) return null;
    return bytes.toString('latin1', 0, MAX_HELD_BYTES);
  }

  #record(queryId: string, cluster: ClusterEntry): void {
    const { settings, history, names, clock } = this.#context;
    if (!settings().historyEnabled) return;
    const { decision, user, body } = this.#submission;
    history.add({
      queryId,
      queryText: body.text,
      user: user.user,
      source: firstHeader(this.request.rawHeaders, names.headerKey('Source')) ?? null,
      backendUrl: cluster.proxyTo,
      created: clock.now(),
      routingGroup: decision.group,
      externalUrl: cluster.externalUrl,
      cluster: cluster.name,
      decision: decisionText(decision, {
        cluster: cluster.name,
        fallback: this.#fallback,
        attempts: this.#attempts,
      }),
    });
  }
}
