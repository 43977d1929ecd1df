import type { Dispatcher } from 'undici';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { StoredChoice } from '../../routing/candidates.ts';
import { type GroupDecision, ofTransaction } from '../../routing/groupDecision.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import { isPlausible } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { PickRequest } from '../../routing/strategies/strategy.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { ForwardedCheck } from '../headers/forwardedCheck.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { AnsweringCluster } from './addedLines.ts';
import { decodeStart, findId, MAX_HELD_BYTES } from './answerId.ts';
import { type AnswerWatch, namesNext } from './answerWatch.ts';
import type { ClusterTargets, NoTarget, Target } from './clusterTargets.ts';
import { Exchange, type ExchangeDependencies, type ExchangeEnd } from './exchange.ts';
import { overloaded, unknownTransaction } from './exchangeRefusals.ts';
import type { AttemptStage, HeldAnswer } from './exchangeState.ts';
import { FirstAnswer } from './firstAnswer.ts';
import type { OutgoingRequest } from './outgoingRequests.ts';
import type { QueryRecorder, SubmissionRoute } from './queryRecorder.ts';
import { type Submission, waitNote } from './submission.ts';
import { SubmissionRetry } from './submissionRetry.ts';
import type { SubmittedQueries, UnreleasedAnswer } from './submittedQueries.ts';

export interface SubmissionDependencies extends ExchangeDependencies {
  readonly targets: ClusterTargets;
  readonly submitted: SubmittedQueries;
  readonly forwardedCheck: Pick<ForwardedCheck, 'noteRefusal'>;
  readonly recorder: Pick<QueryRecorder, 'logEnd' | 'recordFailed' | 'recordRefused'>;
}

/**
 * Lets a submission wait that found its cluster full, and starts or rejects it then. It has given its slots back.
 * @param excluded clusters that failed it; null for none
 */
export type WaitAgain = (exchange: SubmissionExchange, excluded: ReadonlyMap<string, string> | null) => void;

/** Maximum number of waits of one submission: after a wait a cluster normally has capacity. */
const MAX_WAITS = 3;

/** A submission: repeated on another cluster while that is safe, its query id learned before the client sees it. */
export class SubmissionExchange extends Exchange<SubmissionDependencies> implements UnreleasedAnswer {
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
  #retry: SubmissionRetry | null = null;
  /** Clusters that failed it; null for none. */
  #excluded: ReadonlyMap<string, string> | null = null;
  #waits = 0;
  #queryId: string | null = null;
  #counted: CountedSubmission | null = null;
  #encoding = '';
  /** The answer that names the query; null before, and where it does not reach the client. */
  #answer: FirstAnswer | null = null;
  /** Watches that response to learn how the query ends. */
  #watch: AnswerWatch | null = null;
  /** The buffered response, or null. */
  #gathered: Readonly<HeldAnswer> | null = null;
  #isBodyTooLarge = false;
  /** Why the gateway refused it in the end; null when a cluster answered, or failed to. */
  #refused: Refusal['reason'] | null = null;
  #isQueued = false;

  /** @param waitAgain where it may wait when all clusters that could take it are full; null: it is rejected then */
  constructor(
    dependencies: SubmissionDependencies,
    proxied: ProxiedRequest,
    submission: Submission,
    waitAgain: WaitAgain | null = null,
  ) {
    super(dependencies, proxied);
    this.#submission = submission;
    this.#waitAgain = waitAgain;
    const { body, decision, about, transaction } = submission;
    const began = transaction?.cluster ?? null;
    this.#decision = began === null ? decision : ofTransaction(decision, began);
    this.#bound = began ?? about?.cluster ?? null;
    this.#outgoing = dependencies.requests.submission(proxied, decision, body, () => {
      this.#isBodyTooLarge = true;
    });
  }

  /** Chooses a cluster and sends the submission there, or rejects it. */
  start(): void {
    if (this.#bound === null) this.#next();
    else this.#sendTo(this.dependencies.targets.only(this.#bound));
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

  #next(): void {
    this.proxied.trace?.step('choice');
    this.#submission.slots?.beginChoice();
    const target = this.dependencies.targets.choose(this.#decision, this.#sender(), this.#excluded);
    this.#choice = target.choice;
    if (target.cluster === null) this.#refuseWithoutTarget(target);
    else this.#sendTo(target);
  }

  #sender(): PickRequest {
    return { user: this.#submission.user.user, headers: this.proxied.request.rawHeaders };
  }

  #sendTo(target: Target): void {
    const { cluster, upstream } = target;
    this.#target = target;
    this.#choice = target.choice;
    const full = this.#submission.slots?.takeCluster(cluster) ?? null;
    if (full !== null) this.#endFull(full);
    else if (upstream === null)
      this.onFailure(new Error(`proxyTo ${cluster.proxyTo} is not an HTTP URL`), 'connecting');
    else if (upstream.overloaded) this.refuse(overloaded(cluster.name));
    else {
      this.#counted = this.dependencies.targets.countSubmission(cluster, this.#sender());
      this.send(upstream, this.#outgoingTo(cluster));
    }
  }

  /** The cluster has no free slot: another query took it since, or those that had one failed. */
  #endFull(full: Refusal): void {
    if (this.#waitAgain === null || this.#waits >= MAX_WAITS) {
      this.refuse(full);
      return;
    }
    this.#waits += 1;
    this.#target = null;
    this.#submission.slots?.release();
    this.#waitAgain(this, this.#excluded);
  }

  #outgoingTo(cluster: ClusterEntry): OutgoingRequest {
    const { requests } = this.dependencies;
    const { name, proxyTo } = cluster;
    return requests.to({ name, proxyTo }, this.#outgoing, this.proxied, true);
  }

  override refuse(refusal: Refusal): void {
    this.#refused = refusal.reason;
    const { recorder } = this.dependencies;
    super.refuse(recorder.recordRefused(refusal, this.proxied, this.#submission, this.#route()));
  }

  #refuseWithoutTarget({ pending, refusal }: NoTarget): void {
    const { transaction } = this.#submission;
    this.refuse(transaction !== null && !pending ? unknownTransaction(transaction.id) : refusal);
  }

  protected override onFailure(error: Error, stage: AttemptStage): void {
    this.#counted?.withdraw();
    const cluster = this.#target?.cluster ?? null;
    if (cluster === null) return;
    const { name, proxyTo } = cluster;
    const failure = { cluster: name, proxyTo, queryId: null, error, stage, isBodyTooLarge: this.#isBodyTooLarge };
    const result = this.dependencies.failures.note(this.proxied, failure);
    if (typeof result === 'string') this.#retryAfter(cluster, error, stage, result);
    else this.refuse(result);
  }

  #retryAfter(cluster: ClusterEntry, error: Error, stage: AttemptStage, reason: string): void {
    const { settings, answers, failures } = this.dependencies;
    this.#retry ??= new SubmissionRetry(this.#submission, this.#bound !== null);
    const step = this.#retry.after({ cluster, error, stage, reason }, settings.retrySubmissions);
    if (step.next === 'refuse') {
      this.refuse(step.refusal);
      return;
    }
    if (this.#bound !== null && !this.#retry.isBound) {
      this.#bound = null;
      this.#decision = this.#submission.decision;
    }
    if (step.next === 'giveUp') {
      answers.failure(this.proxied, error, stage === 'answering');
      return;
    }
    failures.noteRetry(cluster.name);
    if (step.next === 'other') this.#excluded = step.excluded;
    this.start();
  }

  protected override onServerError(reason: string, inARow: number): void {
    const cluster = this.#target?.cluster;
    if (cluster !== undefined) {
      this.dependencies.failures.noteServerError(cluster.name, cluster.proxyTo, reason, inARow);
    }
  }

  protected override holds(status: number, headers: IncomingHttpHeaders): boolean {
    if (status === 406 && this.#target !== null) {
      const { name, proxyTo } = this.#target.cluster;
      this.dependencies.forwardedCheck.noteRefusal(name, proxyTo);
    }
    if (status !== 200) return false;
    const encoding = headers['content-encoding'];
    this.#encoding = typeof encoding === 'string' && encoding !== 'identity' ? encoding : '';
    return true;
  }

  protected override inspect(answer: Readonly<HeldAnswer>): void {
    const text = this.#textOf(answer);
    const match = text === null ? 'absent' : findId(text);
    if (match === 'incomplete' && !answer.isWhole && answer.size < MAX_HELD_BYTES) return;
    this.decide();
    // A follow-up could not name an id that is not plausible.
    if (typeof match === 'string' || text === null || this.#target === null || !isPlausible(match.id)) this.release();
    else this.#take(match.id, this.#target.cluster, text, answer);
  }

  /**
   * The cluster accepted the query: what has to be noted before the client knows of it is noted.
   * @param text start of the response
   */
  #take(queryId: string, cluster: ClusterEntry, text: string, held: Readonly<HeldAnswer>): void {
    this.#queryId = queryId;
    this.#counted?.confirm();
    const { proxied } = this;
    const answer = new FirstAnswer(this.#encoding, text, held);
    this.#answer = answer;
    this.#gathered = held;
    this.#watch = this.dependencies.submitted.watch(queryId, cluster);
    this.#watch.begin(200, held.headers);
    if (namesNext(text)) this.#watch.noteNext();
    const query = {
      queryId,
      cluster,
      proxied,
      submission: this.#submission,
      route: this.#route(),
      headers: held.headers,
      text,
      answer,
    };
    this.dependencies.submitted.take(query, this);
  }

  override release(): void {
    const answer = this.#gathered;
    this.#gathered = null;
    if (answer !== null) {
      for (const chunk of answer.chunks) this.#watch?.data(chunk);
      if (answer.isWhole) this.#watch?.end();
    }
    super.release();
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#answer?.data(chunk);
    if (this.#gathered === null) this.#watch?.data(chunk);
    super.onResponseData(controller, chunk);
  }

  override onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#answer?.end();
    if (this.#gathered === null) this.#watch?.end();
    super.onResponseEnd(controller, trailers);
  }

  replaceBy(refusal: Refusal): void {
    this.#queryId = null;
    this.#answer = null;
    this.#gathered = null;
    this.#watch = null;
    this.discard();
    if (this.isAwaited) this.refuse(refusal);
  }

  protected override answering(): AnsweringCluster {
    const { cluster, fallback, steps } = this.#target as Target;
    const admission = waitNote(this.#submission);
    return { cluster, decision: this.#decision, fallback, steps, admission, handshake: null };
  }

  protected override onEnd(how: ExchangeEnd): void {
    // One that never got an id is no query of the cluster; without effect for all others.
    this.#counted?.withdraw();
    this.#answer?.breakOff();
    // One that waits keeps its place; the exchange that sends it gives the slots back.
    if (!this.#isQueued) this.#submission.slots?.release();
    const { proxied } = this;
    const status = how === 'client_gone' || how === 'cut' ? 0 : this.response.statusCode;
    const decision = this.#decision;
    proxied.trace?.note({
      'engine_gateway.routing_group': decision.group,
      'engine_gateway.decided_by': decision.decidedBy,
      ...(decision.rule === null ? {} : { 'engine_gateway.rule': decision.rule }),
      ...(this.#queryId === null ? {} : { 'engine_gateway.query_id': this.#queryId }),
    });
    const cluster = this.status === 0 ? null : (this.#target?.cluster.name ?? null);
    this.dependencies.answers.noteEnd(proxied, status, this.status, cluster);
    const { recorder } = this.dependencies;
    if (this.status >= 400) {
      this.#queryId = recorder.recordFailed(this.status, proxied, this.#submission, this.#route());
    }
    const end = { queryId: this.#queryId, refused: this.#refused, queued: this.#isQueued, status };
    recorder.logEnd(proxied, this.#submission, this.#route(), end);
  }

  #route(): SubmissionRoute {
    const { cluster, fallback, steps } = this.#target ?? { cluster: null, fallback: false, steps: null };
    const attempts = this.#retry?.attempts ?? null;
    return { decision: this.#decision, cluster, fallback, steps, attempts, choice: this.#choice };
  }

  #textOf({ chunks, headers }: Readonly<HeldAnswer>): string | null {
    let bytes = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    if (this.#encoding !== '') {
      const decoded = decodeStart(bytes, this.#encoding);
      if (decoded === null) return null;
      bytes = decoded;
    } else if (headers['content-type'] === undefined && bytes[0] !== 0x7b) return null;
    return bytes.toString('latin1', 0, MAX_HELD_BYTES);
  }
}
