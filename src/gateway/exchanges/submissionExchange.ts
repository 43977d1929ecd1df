import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { PickRequest } from '../../routing/clusterChooser.ts';
import { type GroupDecision, ofTransaction } from '../../routing/groupDecision.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import { isPlausible } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { FailedAttempt, StoredChoice } from '../../routing/storedDecision.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { ExchangeParts } from '../dataPlane.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isOwnFault, isReset } from '../upstreams/upstreams.ts';
import { type AttemptFailure, type BufferedResponse, Exchange, type ExchangeEnd } from './exchange.ts';
import {
  chooseTarget,
  type Destination,
  type OutgoingRequest,
  onlyTarget,
  outgoingRequest,
  requestTo,
  type Target,
} from './outgoingRequests.ts';
import { conflictingQueryId, overloaded, unknownTransaction, unreachableOwner } from './ownResponses.ts';
import { type Submission, type SubmissionRoute, waitNote } from './queryRecorder.ts';
import type { RespondingCluster } from './responseHeaders.ts';
import { decodeStart, findId, MAX_BUFFERED_BYTES, namesNext, ResponseWatch } from './responseWatch.ts';

/**
 * Lets a submission wait that found its cluster full, and starts or rejects it then. It has given its slots back.
 * @param excluded clusters that failed it; null for none
 */
export type WaitAgain = (exchange: SubmissionExchange, excluded: ReadonlyMap<string, string> | null) => void;

/** Maximum number of waits of one submission: after a wait a cluster normally has capacity. */
const MAX_WAITS = 3;

/**
 * A submission: repeated on another cluster while that is safe (docs/protocol.md#safe-retry). The query is noted before its
 * client knows of it, so that every replica can serve its follow-ups (docs/protocol.md#learning).
 */
export class SubmissionExchange extends Exchange {
  #submission: Submission;
  readonly #outgoing: OutgoingRequest;
  readonly #waitAgain: WaitAgain | null;
  #decision: GroupDecision;
  /** The one cluster that can take it; null for any that the decision allows. */
  #bound: ClusterEntry | null;
  #target: Target | null = null;
  /** The clusters that were there at the last choice; null if there was none. */
  #choice: StoredChoice | null = null;
  /** Null until an attempt fails. */
  #attempts: FailedAttempt[] | null = null;
  /** Clusters that failed it; null for none. */
  #excluded: ReadonlyMap<string, string> | null = null;
  #hasRepeated = false;
  #waits = 0;
  #queryId: string | null = null;
  #counted: CountedSubmission | null = null;
  #encoding = '';
  /** Watches the response that names the query; null before, and if it does not reach the client. */
  #watch: ResponseWatch | null = null;
  /** The buffered response, or null. */
  #gathered: Readonly<BufferedResponse> | null = null;
  /** Reason of its rejection by the gateway; null if a cluster responded or failed. */
  #rejection: Refusal['reason'] | null = null;
  #isQueued = false;

  /** @param waitAgain where it may wait when all clusters that could take it are full; null: it is rejected then */
  constructor(
    parts: ExchangeParts,
    proxied: ProxiedRequest,
    submission: Submission,
    waitAgain: WaitAgain | null = null,
  ) {
    super(parts, proxied);
    this.#submission = submission;
    this.#waitAgain = waitAgain;
    const { body, decision, about, transaction } = submission;
    const began = transaction?.cluster ?? null;
    this.#decision = began === null ? decision : ofTransaction(decision, began);
    this.#bound = began ?? about?.cluster ?? null;
    const content = body.complete ? body.bytes : this.relay(body.bytes);
    this.#outgoing = outgoingRequest(parts, proxied, decision, content);
  }

  /** Chooses a cluster and sends the submission there, or rejects it. */
  start(): void {
    if (this.#bound !== null) {
      this.#sendTo(onlyTarget(this.parts, this.#bound));
      return;
    }
    this.proxied.trace?.step('choice');
    const { slots } = this.#submission;
    const hasCapacity = slots === null ? undefined : (cluster: string) => slots.mayUse(cluster);
    const target = chooseTarget(this.parts, this.#decision, this.#sender(), this.#excluded, null, hasCapacity);
    this.#choice = target.choice;
    if (target.cluster !== null) {
      this.#sendTo(target);
      return;
    }
    const { transaction } = this.#submission;
    this.reject(transaction !== null && !target.pending ? unknownTransaction(transaction.id) : target.refusal);
  }

  /** Takes other slots in place of those that it gave back. */
  takeSlots(slots: QuerySlots | null): void {
    this.#submission = { ...this.#submission, slots };
  }

  /** Notes that its client gets a response as for a query that waits, which this exchange does not send. */
  noteQueued(id: string): void {
    this.#queryId = id;
    this.#isQueued = true;
  }

  protected override destination(): Destination {
    return this.#target?.cluster ?? { name: '', proxyTo: '' };
  }

  protected override queryId(): null {
    return null;
  }

  #sender(): PickRequest {
    return { user: this.#submission.user.user, headers: this.proxied.request.rawHeaders };
  }

  #sendTo(target: Target): void {
    const { table, chooser } = this.parts;
    const { cluster, upstream } = target;
    this.#target = target;
    this.#choice = target.choice;
    const full = this.#submission.slots?.takeCluster(cluster) ?? null;
    if (full !== null) this.#endFull(full);
    else if (upstream === null) this.fail(new Error(`proxyTo ${cluster.proxyTo} is not an HTTP URL`), 'connecting');
    else if (upstream.overloaded) this.reject(overloaded(cluster.name));
    else {
      this.#counted = chooser.countSubmission(table.current, cluster, this.#sender());
      this.send(upstream, requestTo(this.parts, cluster, this.#outgoing, this.proxied, true));
    }
  }

  /** The cluster has no free slot: another query took it since, or those that had one failed. */
  #endFull(full: Refusal): void {
    if (this.#waitAgain === null || this.#waits >= MAX_WAITS) {
      this.reject(full);
      return;
    }
    this.#waits += 1;
    this.#target = null;
    this.#submission.slots?.release();
    this.#waitAgain(this, this.#excluded);
  }

  override reject(refusal: Refusal): void {
    this.#rejection = refusal.reason;
    super.reject(this.parts.recorder.recordRejected(refusal, this.proxied, this.#submission, this.#route()));
  }

  protected override onFailure(failure: AttemptFailure): void {
    this.#counted?.withdraw();
    const { error, stage, reason } = failure;
    const cluster = this.destination().name;
    this.#attempts ??= [];
    this.#attempts.push({ cluster, error: reason });
    if (this.#bound !== null && stage === 'connecting' && !isOwnFault(error)) {
      const { about, transaction } = this.#submission;
      if (about !== null && transaction === null) {
        this.reject(unreachableOwner(about.queryId, cluster, reason));
        return;
      }
      // The transaction is lost with its cluster: another one states so in the engine's words, and takes the ROLLBACK.
      this.#bound = null;
      this.#decision = this.#submission.decision;
    }
    if (!this.#mayRepeat(failure)) {
      this.parts.responses.failure(this.proxied, error, stage === 'responding');
      return;
    }
    this.parts.metrics.retry(cluster);
    if (this.#bound !== null) this.#hasRepeated = true;
    else this.#excluded = new Map(this.#attempts.map((attempt) => [attempt.cluster, attempt.error]));
    this.start();
  }

  /** True if nothing can run twice (docs/protocol.md#safe-retry). */
  #mayRepeat({ error, stage }: AttemptFailure): boolean {
    const isBound = this.#bound !== null;
    if (!this.#submission.body.complete || isOwnFault(error)) return false;
    if (stage === 'connecting') return !isBound;
    if (isBound && this.#hasRepeated) return false;
    return this.parts.settings.retrySubmissions === 'untilAnswered' && stage === 'sent' && isReset(error);
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    if (status === 406) {
      const { name, proxyTo } = this.destination();
      this.parts.forwardedCheck.noteRejection(name, proxyTo);
    }
    if (status !== 200) return false;
    const encoding = headers['content-encoding'];
    this.#encoding = typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
    return true;
  }

  protected override inspect(buffered: Readonly<BufferedResponse>): void {
    const text = this.#textOf(buffered);
    const match = text === null ? 'absent' : findId(text);
    if (match === 'incomplete' && !buffered.isWhole && buffered.size < MAX_BUFFERED_BYTES) return;
    this.decide();
    // A follow-up could not name an id that is not plausible.
    if (typeof match === 'string' || text === null || this.#target === null || !isPlausible(match.id)) this.release();
    else this.#take(match.id, this.#target.cluster, text, buffered).catch((error: Error) => this.#abandon(error));
  }

  /** The query cannot be noted, by a defect: its client gets nothing of the response. */
  #abandon(error: Error): void {
    this.discard();
    if (this.isAwaited) this.parts.responses.failure(this.proxied, error, true);
  }

  /**
   * The cluster accepted the query: notes owner, transaction and history before the client knows of it. Nothing is waited
   * for unless it has to be stored first.
   * @param text start of the response
   */
  async #take(queryId: string, cluster: ClusterEntry, text: string, reply: Readonly<BufferedResponse>): Promise<void> {
    const { stickiness, ownership, outcomes, transactions, recorder, settings } = this.parts;
    const { proxied } = this;
    const submission = this.#submission;
    const { name, proxyTo, uid } = cluster;
    this.#queryId = queryId;
    this.#counted?.confirm();
    this.#gathered = reply;
    const watch = new ResponseWatch(this.parts, queryId, name, 'POST', () => submission.slots?.bind(queryId, name));
    watch.begin(200, reply.headers);
    this.#watch = watch;
    const claim = stickiness.learn(queryId, { cluster: name, proxyTo, uid });
    if (claim !== null) {
      this.pauseResponse();
      const conflict = await claim;
      if (conflict !== null) {
        // Nothing of the response reaches the client, who would ask the owner next.
        ownership.conflict(name, queryId, conflict);
        this.#replaceBy(conflictingQueryId(queryId, name, conflict.kind));
        return;
      }
    }
    this.#checkForwarded(cluster, text);
    const route = this.#route();
    outcomes.begin(queryId, recorder.factsOf(proxied, submission, route));
    // Nearly always the next URI stands in the start of the response.
    if (namesNext(text)) watch.noteNext();
    if (submission.transaction !== null) transactions.noteStatement(queryId, submission.transaction.id);
    const storing = transactions.noteResponse(queryId, reply.headers, { cluster: name, proxyTo });
    if (storing !== null) {
      // The transaction has its slots from now on, also if this is the last response.
      submission.slots?.bind(queryId, name);
      this.pauseResponse();
      await storing;
    }
    // Most clients do not wait for the history.
    if (!settings.historyBeforeResponse) this.release();
    recorder.record(queryId, cluster, proxied, submission, route);
    if (!settings.historyBeforeResponse) return;
    this.pauseResponse();
    await recorder.whenWritten(queryId);
    this.release();
  }

  /** Checks that the cluster's URLs point to the gateway. */
  #checkForwarded({ name, proxyTo }: ClusterEntry, text: string): void {
    const { settings, forwardedCheck, headers } = this.parts;
    if (!settings.forwardedHeadersEnabled || !forwardedCheck.due(proxyTo)) return;
    forwardedCheck.noteResponse(name, proxyTo, text, headers.clientOf(this.proxied.request));
  }

  protected override release(): void {
    const gathered = this.#gathered;
    this.#gathered = null;
    if (gathered !== null) {
      for (const chunk of gathered.chunks) this.#watch?.data(chunk);
      if (gathered.isWhole) this.#watch?.end();
    }
    super.release();
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#gathered === null) this.#watch?.data(chunk);
    super.onResponseData(controller, chunk);
  }

  override onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    if (this.#gathered === null) this.#watch?.end();
    super.onResponseEnd(controller, trailers);
  }

  #replaceBy(refusal: Refusal): void {
    this.#queryId = null;
    this.#gathered = null;
    this.#watch = null;
    this.discard();
    if (this.isAwaited) this.reject(refusal);
  }

  protected override respondingCluster(): RespondingCluster {
    const { cluster, fallback, steps } = this.#target as Target;
    const admission = waitNote(this.#submission);
    return { cluster, decision: this.#decision, fallback, steps, admission, handshake: null };
  }

  protected override onEnd(how: ExchangeEnd): void {
    // One that never got an id is no query of the cluster; without effect for all others.
    this.#counted?.withdraw();
    if (this.#gathered === null) this.#watch?.breakOff();
    // One that waits keeps its place; the exchange that sends it gives the slots back.
    if (!this.#isQueued) this.#submission.slots?.release();
    const { proxied } = this;
    const { responses, recorder } = this.parts;
    const status = how === 'client_gone' || how === 'cut' ? 0 : this.response.statusCode;
    const { group, decidedBy, rule } = this.#decision;
    proxied.trace?.note({
      'engine_gateway.routing_group': group,
      'engine_gateway.decided_by': decidedBy,
      ...(rule === null ? {} : { 'engine_gateway.rule': rule }),
      ...(this.#queryId === null ? {} : { 'engine_gateway.query_id': this.#queryId }),
    });
    responses.noteEnd(proxied, status, this.status, this.status === 0 ? null : (this.#target?.cluster.name ?? null));
    const route = this.#route();
    if (this.status >= 400) this.#queryId = recorder.recordFailed(this.status, proxied, this.#submission, route);
    const outcome = this.#isQueued ? 'queued' : this.#rejection;
    recorder.logEnd(proxied, this.#submission, route, this.#queryId, outcome, status);
  }

  #route(): SubmissionRoute {
    const { cluster, fallback, steps } = this.#target ?? { cluster: null, fallback: false, steps: null };
    return { decision: this.#decision, cluster, fallback, steps, attempts: this.#attempts, choice: this.#choice };
  }

  #textOf({ chunks, headers }: Readonly<BufferedResponse>): string | null {
    let bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (this.#encoding !== '') {
      const decoded = decodeStart(bytes, this.#encoding);
      if (decoded === null) return null;
      bytes = decoded;
    } else if (headers['content-type'] === undefined && bytes[0] !== 0x7b) return null;
    return bytes.toString('latin1', 0, MAX_BUFFERED_BYTES);
  }
}
