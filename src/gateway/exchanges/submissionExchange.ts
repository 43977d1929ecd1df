import type { IncomingHttpHeaders } from 'undici/types/header.js';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { type ClusterChoice, explainNoCluster } from '../../routing/clusterChoice.ts';
import { type GroupDecision, ofTransaction, setHeadersOf } from '../../routing/groupDecision.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import { isPlausible } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { FailedAttempt } from '../../routing/storedDecision.ts';
import type { BodyStart } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import { BodyRelay, type RelayFault } from '../bodies/bodyRelay.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import { tellingPrefix } from '../ownership/clusterKeys.ts';
import type { OwnershipConflict } from '../ownership/queryOwner.ts';
import type { ClusterIdentity } from '../pages/clusterIdentities.ts';
import { classify, isHeadTooLarge, isOwnFault, isReset } from '../upstreams/clusterError.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { decodeStart, findId, MAX_HELD_BYTES } from './answerId.ts';
import { namesNext } from './answerWatch.ts';
import { decisionText } from './decisionText.ts';
import { Exchange, type ExchangeEnd, type OutgoingRequest } from './exchange.ts';
import { explainLine } from './explain.ts';
import { answerHeadTooLarge, overloaded, unreachableOwner } from './forwardExchange.ts';

/** What is known of a submission when it is sent. */
export interface Submission {
  readonly body: BodyStart;
  readonly user: RequestUser;
  readonly decision: GroupDecision;
  /** The query that the statement is about (kill_query): it goes to that query's cluster; null for all others. */
  readonly about: { readonly queryId: string; readonly cluster: ClusterEntry } | null;
  /**
   * The transaction that the statement belongs to, with the cluster that began it (null where nobody knows it); null for
   * statements outside of transactions.
   */
  readonly transaction: { readonly id: string; readonly cluster: ClusterEntry | null } | null;
}

/** A submission: repeated on another cluster while that is safe, its query id learned before the client sees it. */
export class SubmissionExchange extends Exchange {
  readonly #context: DataPlaneContext;
  readonly #proxied: ProxiedRequest;
  readonly #submission: Submission;
  readonly #outgoing: OutgoingRequest;
  #decision: GroupDecision;
  /** The one cluster that can take it; null for any that the decision allows. */
  #bound: ClusterEntry | null;
  #repeated = false;
  #cluster: ClusterEntry | null = null;
  #fallback = false;
  #attempts: FailedAttempt[] | null = null;
  #queryId: string | null = null;
  /** Its part in the cluster's load, where that is counted. */
  #counted: CountedSubmission | null = null;
  #encoding = '';
  #learning = false;
  #bodyFault: RelayFault | null = null;
  /** Why the gateway refused it in the end; null when a cluster answered, or failed to. */
  #refused: Refusal['reason'] | null = null;
  #headers: IncomingHttpHeaders | null = null;

  constructor(context: DataPlaneContext, proxied: ProxiedRequest, submission: Submission) {
    super(proxied.request, proxied.response, {
      stallTimeout: context.settings().clientStallTimeout,
      judgesCluster: proxied.statementPath,
      answerHeaders: context.answerHeaders,
    });
    this.#context = context;
    this.#proxied = proxied;
    this.#submission = submission;
    const { body, about, transaction } = submission;
    const began = transaction?.cluster ?? null;
    this.#decision = began === null ? submission.decision : ofTransaction(submission.decision, began);
    this.#bound = began ?? about?.cluster ?? null;
    const settings = context.settings();
    this.#outgoing = {
      method: proxied.method,
      target: proxied.rawTarget,
      headers: context.headers.forCluster(proxied.request, true, setHeadersOf(submission.decision)),
      body: body.complete
        ? body.bytes
        : new BodyRelay(proxied.request, body.bytes, settings.maxBodySize, context.bodies, (fault) => {
            this.#bodyFault = fault;
          }),
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** Chooses a cluster and sends the submission there, or refuses it. */
  start(): void {
    const bound = this.#bound;
    if (bound === null) this.#next(null);
    else this.#go(bound, this.#context.upstreams.get(bound.proxyTo), false);
  }

  #next(excluded: ReadonlyMap<string, string> | null): void {
    const { table, chooser, upstreams } = this.#context;
    this.#proxied.trace?.step('choice');
    const choice = chooser.choose(table.current, this.#decision, this.#submission.user.user, excluded);
    if (choice.cluster === null) this.#refuseNoCluster(choice);
    else this.#go(choice.cluster, upstreams.get(choice.cluster.proxyTo), choice.fallback);
  }

  #go(cluster: ClusterEntry, upstream: Upstream | null, fallback: boolean): void {
    this.#cluster = cluster;
    this.#fallback = fallback;
    if (upstream === null) this.failed(new Error(`proxyTo ${cluster.proxyTo} is not an HTTP URL`));
    else if (upstream.overloaded) this.refuse(overloaded(cluster.name));
    else {
      this.#counted = this.#context.chooser.submitted(cluster, this.#submission.user.user);
      this.send(upstream, this.#outgoingTo(cluster));
    }
  }

  #outgoingTo(cluster: ClusterEntry): OutgoingRequest {
    const { name, proxyTo } = cluster;
    const { trace } = this.#proxied;
    const { prefixes, engineCookies } = this.#context;
    if (prefixes === null && engineCookies === null && trace === null) return this.#outgoing;
    const { headers: sent } = this.#outgoing;
    const own = engineCookies?.forCluster(sent, cluster, false) ?? sent;
    const headers = tellingPrefix(this.#context, own, name);
    return { ...this.#outgoing, headers: trace === null ? headers : [...headers, ...trace.toCluster(name, proxyTo)] };
  }

  /** Refuses the submission. */
  refuse(refusal: Refusal): void {
    this.#refused = refusal.reason;
    this.#context.refuse(this.#proxied, refusal);
  }

  #refuseNoCluster(choice: ClusterChoice & { cluster: null }): void {
    const { transaction } = this.#submission;
    if (transaction !== null && !choice.pending) {
      this.refuse(unknownTransaction(transaction.id));
      return;
    }
    this.refuse({
      reason: choice.pending ? 'pending' : 'no_cluster',
      message: explainNoCluster(this.#decision, choice.notTaken, this.#context.settings().defaultRoutingGroup),
      queryId: null,
    });
  }

  protected override failed(error: Error): void {
    this.#counted?.withdraw();
    const cluster = this.#cluster;
    if (cluster === null) return;
    if (this.#bodyFault !== null) {
      const { bodies, settings } = this.#context;
      this.refuse(bodyRefusal(this.#bodyFault, bodies, settings().maxBodySize));
      return;
    }
    const { type, reason } = classify(error, this.sent);
    this.#context.metrics.clusterError(cluster.name, type);
    this.#proxied.trace?.failed(reason);
    if (isHeadTooLarge(error)) {
      this.refuse(answerHeadTooLarge(cluster.name, null));
      return;
    }
    this.#attempts ??= [];
    this.#attempts.push({ cluster: cluster.name, error: reason });
    if (!this.sent && !isOwnFault(error)) this.#context.connectionFailed(cluster.name, cluster.proxyTo, reason);
    const { about, transaction } = this.#submission;
    if (this.#bound !== null && !this.sent && !isOwnFault(error)) {
      if (about !== null && transaction === null) {
        this.refuse(unreachableOwner(about.queryId, cluster.name, reason));
        return;
      }
      // The transaction is lost with its cluster: another one says so in the engine's words, and takes the ROLLBACK.
      this.#bound = null;
      this.#decision = this.#submission.decision;
    }
    if (!this.#mayRepeat(error)) {
      this.#context.answerFailure(this.#proxied, error, this.answered);
      return;
    }
    this.#context.metrics.retry(cluster.name);
    if (this.#bound !== null) {
      this.#repeated = true;
      this.start();
      return;
    }
    this.#next(new Map(this.#attempts.map((attempt) => [attempt.cluster, attempt.error])));
  }

  /** Whether nothing can run twice (docs/protocol.md#safe-retry). */
  #mayRepeat(error: Error): boolean {
    if (!this.#submission.body.complete || isOwnFault(error)) return false;
    if (!this.sent) return this.#bound === null;
    if (this.#bound !== null && this.#repeated) return false;
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
    const { id } = found;
    if (!isPlausible(id)) {
      // No follow-up could name it.
      this.release();
      return;
    }
    const cluster = this.#cluster;
    this.#queryId = id;
    this.#counted?.accepted();
    const { name, proxyTo, uid } = cluster;
    const claimed = this.#context.stickiness.learn(id, { cluster: name, baseUrl: proxyTo, uid });
    const goesOn = !held.ended || namesNext(text);
    if (claimed === null) this.#accept(id, cluster, text, goesOn);
    else {
      this.pauseHeld();
      void claimed.then((conflict) => {
        if (conflict === null) this.#accept(id, cluster, text, goesOn);
        else this.#refuseForeign(id, cluster, conflict);
      });
    }
  }

  /** The cluster owns the query: the answer is the client's. */
  #accept(queryId: string, cluster: ClusterEntry, text: string, goesOn: boolean): void {
    const { settings, forwardedCheck, runningQueries, headers } = this.#context;
    const { name, proxyTo } = cluster;
    if (settings().forwardedHeadersEnabled && forwardedCheck.due(proxyTo)) {
      forwardedCheck.answered(name, proxyTo, text, headers.clientOf(this.request));
    }
    if (goesOn) runningQueries?.seen(queryId, name, true);
    const stored = this.#noteTransaction(queryId, cluster);
    if (stored === null) this.#give(queryId, cluster);
    else {
      this.pauseHeld();
      void stored.then(() => this.#give(queryId, cluster));
    }
  }

  #give(queryId: string, cluster: ClusterEntry): void {
    this.release();
    this.#record(queryId, cluster);
  }

  /** Notes the transaction that the query belongs to or begins; null when nothing has to be stored first. */
  #noteTransaction(queryId: string, { name, proxyTo }: ClusterEntry): Promise<void> | null {
    const { transactions } = this.#context;
    const { transaction } = this.#submission;
    if (transaction !== null) transactions.noteStatement(queryId, transaction.id);
    return this.#headers === null
      ? null
      : transactions.answered(queryId, this.#headers, { cluster: name, baseUrl: proxyTo });
  }

  /** Another cluster owns the query id: nothing of the answer reaches the client, who would ask that cluster next. */
  #refuseForeign(queryId: string, cluster: ClusterEntry, conflict: OwnershipConflict): void {
    this.#context.ownership.conflict(cluster.name, queryId, conflict);
    this.#queryId = null;
    this.discard();
    if (this.clientGone) return;
    const why =
      conflict.kind === 'owned'
        ? 'which belongs to another cluster'
        : 'of one coordinator more than a cluster may have in a short time';
    this.refuse({
      reason: 'ownership_conflict',
      message: `Cluster "${cluster.name}" answered with query id ${queryId}, ${why}. Its answer is refused; ask the administrator of the gateway.`,
      queryId: null,
    });
  }

  protected override clusterIdentity(): ClusterIdentity | null {
    return this.#cluster;
  }

  protected override extraLines(headers: IncomingHttpHeaders): readonly string[] | null {
    const { handshakes, settings } = this.#context;
    const { explainHeader, includeClusterHostInResponse } = settings();
    if (handshakes === null && !explainHeader && !includeClusterHostInResponse) return null;
    const lines = [...(handshakes?.linesOfLogin(headers, this.#cluster?.name ?? '') ?? [])];
    if (explainHeader && this.#cluster !== null) {
      lines.push(...explainLine(this.#context.names, this.#decision, this.#cluster.name, this.#fallback));
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
    const { user, body } = this.#submission;
    const decision = this.#decision;
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
    const { user, body } = this.#submission;
    const decision = this.#decision;
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

/** The refusal of a statement of a transaction whose cluster is gone, where no other one can say so: Trino's words. */
function unknownTransaction(id: string): Refusal {
  const message = `Unknown transaction ID: ${id}. Possibly expired? Commands ignored until end of transaction block`;
  return { reason: 'unknown_transaction', message, queryId: null };
}
