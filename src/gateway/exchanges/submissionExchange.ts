import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { type ClusterChoice, explainNoCluster } from '../../routing/clusterChoice.ts';
import { type GroupDecision, ofTransaction, setHeadersOf } from '../../routing/groupDecision.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import { isPlausible } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import { BodyRelay, type RelayFault } from '../bodies/bodyRelay.ts';
import type { OwnershipConflict } from '../ownership/queryOwner.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { classify, isHeadTooLarge, isOwnFault } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { decodeStart, findId, MAX_HELD_BYTES } from './answerId.ts';
import { namesNext } from './answerWatch.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
import type { SubmissionDependencies } from './exchangeDependencies.ts';
import { answerHeadTooLarge, foreignQueryId, overloaded, unknownTransaction } from './exchangeRefusals.ts';
import type { AttemptStage, HeldAnswer } from './exchangeState.ts';
import { explainLine } from './explain.ts';
import type { SubmissionRoute } from './queryRecorder.ts';
import type { Submission } from './submission.ts';
import { SubmissionRetry } from './submissionRetry.ts';

/** The cluster that a submission is sent to. */
interface Target {
  readonly cluster: ClusterEntry;
  /** Whether it serves in place of the group that was decided on. */
  readonly fallback: boolean;
}

/** A submission: repeated on another cluster while that is safe, its query id learned before the client sees it. */
export class SubmissionExchange extends Exchange {
  readonly #dependencies: SubmissionDependencies;
  readonly #proxied: ProxiedRequest;
  readonly #submission: Submission;
  readonly #outgoing: OutgoingRequest;
  #decision: GroupDecision;
  /** The one cluster that can take it; null for any that the decision allows. */
  #bound: ClusterEntry | null;
  #target: Target | null = null;
  /** Null until an attempt fails. */
  #retry: SubmissionRetry | null = null;
  #queryId: string | null = null;
  /** Its part in the cluster's load, where that is counted. */
  #counted: CountedSubmission | null = null;
  #encoding = '';
  #bodyFault: RelayFault | null = null;
  /** Why the gateway refused it in the end; null when a cluster answered, or failed to. */
  #refused: Refusal['reason'] | null = null;
  #headers: IncomingHttpHeaders | null = null;

  constructor(dependencies: SubmissionDependencies, proxied: ProxiedRequest, submission: Submission) {
    super(proxied.request, proxied.response, {
      stallTimeout: dependencies.settings().clientStallTimeout,
      judgesCluster: proxied.statementPath,
      answerHeaders: dependencies.answerHeaders,
    });
    this.#dependencies = dependencies;
    this.#proxied = proxied;
    this.#submission = submission;
    const { body, about, transaction } = submission;
    const began = transaction?.cluster ?? null;
    this.#decision = began === null ? submission.decision : ofTransaction(submission.decision, began);
    this.#bound = began ?? about?.cluster ?? null;
    const settings = dependencies.settings();
    this.#outgoing = {
      method: proxied.method,
      target: proxied.rawTarget,
      headers: dependencies.clusterHeaders.forAny(proxied.request, true, setHeadersOf(submission.decision)),
      body: body.complete
        ? body.bytes
        : new BodyRelay(proxied.request, body.bytes, settings.maxBodySize, dependencies.bodies, (fault) => {
            this.#bodyFault = fault;
          }),
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** Chooses a cluster and sends the submission there, or refuses it. */
  start(): void {
    const bound = this.#bound;
    if (bound === null) this.#next(null);
    else this.#go(bound, this.#dependencies.upstreams.get(bound.proxyTo), false);
  }

  #next(excluded: ReadonlyMap<string, string> | null): void {
    const { table, chooser, upstreams } = this.#dependencies;
    this.#proxied.trace?.step('choice');
    const choice = chooser.choose(table.current, this.#decision, this.#submission.user.user, excluded);
    if (choice.cluster === null) this.#refuseNoCluster(choice);
    else this.#go(choice.cluster, upstreams.get(choice.cluster.proxyTo), choice.fallback);
  }

  #go(cluster: ClusterEntry, upstream: Upstream | null, fallback: boolean): void {
    this.#target = { cluster, fallback };
    if (upstream === null) this.onFailure(new Error(`proxyTo ${cluster.proxyTo} is not an HTTP URL`), 'connecting');
    else if (upstream.overloaded) this.refuse(overloaded(cluster.name));
    else {
      this.#counted = this.#dependencies.chooser.countSubmission(cluster, this.#submission.user.user);
      this.send(upstream, this.#outgoingTo(cluster));
    }
  }

  #outgoingTo(cluster: ClusterEntry): OutgoingRequest {
    const { trace } = this.#proxied;
    const { clusterHeaders } = this.#dependencies;
    if (!clusterHeaders.differ({ answersUrls: true, trace })) return this.#outgoing;
    const { name, proxyTo } = cluster;
    const hop = { name, proxyTo, identity: cluster, isPage: false, answersUrls: true, trace };
    return { ...this.#outgoing, headers: clusterHeaders.forOne(this.#outgoing.headers, hop) };
  }

  /** Refuses the submission. */
  refuse(refusal: Refusal): void {
    this.#refused = refusal.reason;
    this.#dependencies.answers.refuse(this.#proxied, refusal);
  }

  #refuseNoCluster(choice: ClusterChoice & { cluster: null }): void {
    const { transaction } = this.#submission;
    if (transaction !== null && !choice.pending) {
      this.refuse(unknownTransaction(transaction.id));
      return;
    }
    this.refuse({
      reason: choice.pending ? 'pending' : 'no_cluster',
      message: explainNoCluster(this.#decision, choice.notTaken, this.#dependencies.settings().defaultRoutingGroup),
      queryId: null,
    });
  }

  protected override onFailure(error: Error, stage: AttemptStage): void {
    this.#counted?.withdraw();
    const cluster = this.#target?.cluster ?? null;
    if (cluster === null) return;
    const { bodies, settings, metrics } = this.#dependencies;
    if (this.#bodyFault !== null) {
      this.refuse(bodyRefusal(this.#bodyFault, bodies, settings().maxBodySize));
      return;
    }
    const { type, reason } = classify(error, stage !== 'connecting');
    metrics.clusterError(cluster.name, type);
    this.#proxied.trace?.noteFailure(reason);
    if (isHeadTooLarge(error)) {
      this.refuse(answerHeadTooLarge(cluster.name, null));
      return;
    }
    if (stage === 'connecting' && !isOwnFault(error)) {
      this.#dependencies.reports.connectionFailed(cluster.name, cluster.proxyTo, reason);
    }
    this.#retryAfter(cluster, error, stage, reason);
  }

  #retryAfter(cluster: ClusterEntry, error: Error, stage: AttemptStage, reason: string): void {
    const { metrics, settings } = this.#dependencies;
    this.#retry ??= new SubmissionRetry(this.#submission, this.#bound !== null);
    const step = this.#retry.after({ cluster, error, stage, reason }, settings().retrySubmissions);
    if (step.next === 'refuse') {
      this.refuse(step.refusal);
      return;
    }
    if (this.#bound !== null && !this.#retry.isBound) {
      this.#bound = null;
      this.#decision = this.#submission.decision;
    }
    if (step.next === 'giveUp') {
      this.#dependencies.answers.failure(this.#proxied, error, stage === 'answering');
      return;
    }
    metrics.retry(cluster.name);
    if (step.next === 'same') this.start();
    else this.#next(step.excluded);
  }

  protected override onServerError(reason: string, inARow: number): void {
    const cluster = this.#target?.cluster;
    if (cluster !== undefined) this.#dependencies.reports.serverFailed(cluster.name, cluster.proxyTo, reason, inARow);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    this.#headers = headers;
    if (status === 406 && this.#target !== null) {
      const { name, proxyTo } = this.#target.cluster;
      this.#dependencies.forwardedCheck.noteRefusal(name, proxyTo);
    }
    if (status !== 200) return false;
    const encoding = headers['content-encoding'];
    this.#encoding = typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
    return true;
  }

  protected override inspect(answer: Readonly<HeldAnswer>): void {
    const text = this.#textOf(answer.chunks);
    const match = text === null ? 'absent' : findId(text);
    if (match === 'incomplete' && !answer.isWhole && answer.size < MAX_HELD_BYTES) return;
    this.decide();
    // A follow-up could not name an id that is not plausible.
    if (typeof match === 'string' || text === null || this.#target === null || !isPlausible(match.id)) this.release();
    else this.#learn(match.id, this.#target.cluster, text, !answer.isWhole || namesNext(text));
  }

  /**
   * Makes the cluster the owner of the query, before its client knows of it.
   * @param text start of the answer
   * @param goesOn whether the client will ask for more
   */
  #learn(queryId: string, cluster: ClusterEntry, text: string, goesOn: boolean): void {
    this.#queryId = queryId;
    this.#counted?.confirm();
    const { name, proxyTo, uid } = cluster;
    const claimed = this.#dependencies.stickiness.learn(queryId, { cluster: name, proxyTo, uid });
    if (claimed === null) this.#accept(queryId, cluster, text, goesOn);
    else {
      this.pauseAnswer();
      void claimed.then((conflict) => {
        if (conflict === null) this.#accept(queryId, cluster, text, goesOn);
        else this.#refuseForeign(queryId, cluster, conflict);
      });
    }
  }

  /** The cluster owns the query: the answer is the client's. */
  #accept(queryId: string, cluster: ClusterEntry, text: string, goesOn: boolean): void {
    const { settings, forwardedCheck, runningQueries, clients } = this.#dependencies;
    const { name, proxyTo } = cluster;
    if (settings().forwardedHeadersEnabled && forwardedCheck.due(proxyTo)) {
      forwardedCheck.noteAnswer(name, proxyTo, text, clients.clientOf(this.request));
    }
    if (goesOn) runningQueries.noteActivity(queryId, name, true);
    const stored = this.#noteTransaction(queryId, cluster);
    if (stored === null) this.#give(queryId, cluster);
    else {
      this.pauseAnswer();
      void stored.then(() => this.#give(queryId, cluster));
    }
  }

  #give(queryId: string, cluster: ClusterEntry): void {
    const { recorder, settings } = this.#dependencies;
    const { historyBeforeAnswer } = settings();
    if (!historyBeforeAnswer) this.release();
    recorder.record(queryId, cluster, this.#proxied, this.#submission, this.#route());
    if (!historyBeforeAnswer) return;
    this.pauseAnswer();
    void recorder.whenWritten(queryId).then(() => this.release());
  }

  /** Notes the transaction that the query belongs to or begins; null when nothing has to be stored first. */
  #noteTransaction(queryId: string, { name, proxyTo }: ClusterEntry): Promise<void> | null {
    const { transactions } = this.#dependencies;
    const { transaction } = this.#submission;
    if (transaction !== null) transactions.noteStatement(queryId, transaction.id);
    return this.#headers === null ? null : transactions.noteAnswer(queryId, this.#headers, { cluster: name, proxyTo });
  }

  /** Another cluster owns the query id: nothing of the answer reaches the client, who would ask that cluster next. */
  #refuseForeign(queryId: string, cluster: ClusterEntry, conflict: OwnershipConflict): void {
    this.#dependencies.ownership.conflict(cluster.name, queryId, conflict);
    this.#queryId = null;
    this.discard();
    if (this.isAwaited) this.refuse(foreignQueryId(queryId, cluster.name, conflict.kind));
  }

  protected override clusterIdentity(): ClusterIdentity | null {
    return this.#target?.cluster ?? null;
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { handshakes, settings } = this.#dependencies;
    const { explainHeader, includeClusterHostInResponse } = settings();
    if (handshakes === null && !explainHeader && !includeClusterHostInResponse) return null;
    const lines = [...(handshakes?.linesOfLogin(headers, this.#target?.cluster.name ?? '') ?? [])];
    if (explainHeader && this.#target !== null) {
      const { cluster, fallback } = this.#target;
      lines.push(...explainLine(this.#dependencies.names, this.#decision, cluster.name, fallback));
    }
    if (includeClusterHostInResponse && this.upstream !== null) {
      lines.push('Set-Cookie', `${this.#dependencies.names.clusterHostCookie}=${this.upstream.hostname}`);
    }
    return lines;
  }

  protected override onEnd(how: ExchangeEnd): void {
    // One that never got an id is no query of the cluster; without effect for all others.
    this.#counted?.withdraw();
    const status = how === 'client_gone' || how === 'cut' ? 0 : this.response.statusCode;
    const decision = this.#decision;
    this.#proxied.trace?.note({
      'engine_gateway.routing_group': decision.group,
      'engine_gateway.decided_by': decision.decidedBy,
      ...(decision.rule === null ? {} : { 'engine_gateway.rule': decision.rule }),
      ...(this.#queryId === null ? {} : { 'engine_gateway.query_id': this.#queryId }),
    });
    this.#dependencies.answers.noteEnd(this.#proxied, status, this.status);
    const end = { queryId: this.#queryId, refused: this.#refused, status };
    this.#dependencies.recorder.logEnd(this.#proxied, this.#submission, this.#route(), end);
  }

  #route(): SubmissionRoute {
    const { cluster, fallback } = this.#target ?? { cluster: null, fallback: false };
    return { decision: this.#decision, cluster, fallback, attempts: this.#retry?.attempts ?? null };
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
}
