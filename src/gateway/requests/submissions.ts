import { DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import type { PickRequest } from '../../routing/clusterChooser.ts';
import { type GroupDecision, ofTransaction } from '../../routing/groupRouter.ts';
import type { CountedSubmission } from '../../routing/localLoad.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { isQueuedId, targetText, transactionIdOf } from '../../routing/statementProtocol.ts';
import type { FailedAttempt, StoredChoice } from '../../routing/storedDecision.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { AdmissionWait } from '../admission/admission.ts';
import { WaitingRequests } from '../admission/limitedSubmission.ts';
import { noMemoryForBody } from '../bodies/requestBodies.ts';
import type { DataPlaneParts, ExchangeParts, QueueParts } from '../dataPlane.ts';
import {
  type AttemptFailure,
  type BufferedResponse,
  Exchange,
  type ExchangeEnd,
  nowhere,
} from '../exchanges/exchange.ts';
import {
  conditionsOf,
  type Submission,
  type SubmissionRoute,
  type UndecidedSubmission,
  waitNote,
} from '../exchanges/queryRecorder.ts';
import {
  conflictingQueryId,
  type GatewayResponses,
  overloaded,
  type RespondingCluster,
  unknownTransaction,
  unreachableOwner,
} from '../exchanges/responses.ts';
import { ResponseWatch, readId } from '../exchanges/responseWatch.ts';
import { ownerCluster } from '../ownership/queryOwner.ts';
import {
  type Analysis,
  chooseTarget,
  KILL_QUERY,
  mayKillQuery,
  type OutgoingRequest,
  onlyTarget,
  outgoingRequest,
  type ProxiedRequest,
  ProxiedRuleRequest,
  requestTo,
  type Target,
} from '../proxiedRequest.ts';
import { ClientQuery } from '../queue/clientQuery.ts';
import { isStorable, nextTargetOf, withoutBody } from '../queue/storedSubmission.ts';
import { firstError } from '../queue/survival.ts';
import { isOwnFault, isReset } from '../upstreams/upstreams.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;
const CANCEL_TIMEOUT_MS = 5_000;

const stopping = toRefusal(
  'stopping',
  'This gateway is stopping and takes no new queries; send it again, another one answers.',
);

/** New queries: body, analysis, group, binding, admission, and off to a cluster. */
export class Submissions {
  readonly #parts: DataPlaneParts;
  readonly #queue: QueueParts | null;
  readonly #waiting = new WaitingRequests();
  readonly #preparedHeader: string;
  readonly #transactionHeader: string;
  #stopping = false;

  /** @param queue of submissions that wait for long, with responses to their clients; null if none can be kept */
  constructor(parts: DataPlaneParts, queue: QueueParts | null) {
    this.#parts = parts;
    this.#queue = queue;
    this.#preparedHeader = parts.names.headerKey('Prepared-Statement');
    this.#transactionHeader = parts.names.headerKey('Transaction-Id');
  }

  /**
   * From now on all are rejected, as the gateway is stopping; those that wait to be admitted go into the queue, or are
   * rejected.
   */
  rejectAll(): void {
    this.#stopping = true;
    this.#waiting.endAll();
  }

  /** Takes a new query. */
  async submit(proxied: ProxiedRequest): Promise<void> {
    const { responses, metrics, bodies, settings, analyzer, router, table, headers, recorder, admission } = this.#parts;
    const { clock, names, externalRules } = this.#parts;
    const { request, fields, response, trace } = proxied;
    if (this.#stopping) {
      responses.reject(proxied, stopping);
      return;
    }
    metrics.submissions.count += 1;
    const limit = Math.max(settings.maxAnalyzedBody, MIN_BUFFERED_BODY);
    const body = await bodies.read(request, response, limit);
    if (body === 'noMemory') {
      responses.reject(proxied, noMemoryForBody(bodies));
      return;
    }
    trace?.step('analysis');
    const { current } = table;
    const whole = body.complete ? body : null;
    // Calls of kill_query are recognized by the analysis.
    const isAnalyzed =
      current.rules?.needsAnalysis === true ||
      externalRules?.needsAnalysis === true ||
      (whole !== null && KILL_QUERY.test(whole.text) && mayKillQuery(whole.text, fields, this.#preparedHeader));
    const analysis: Analysis = isAnalyzed
      ? await analyzer.analyze(proxied, whole)
      : { user: await analyzer.user(proxied), queryProperties: null };
    if (response.destroyed) return;
    proxied.analysedAt = clock.monotonic();
    const { user, queryProperties } = analysis;
    const rejectUndecided = (refusal: Refusal, undecided: UndecidedSubmission) =>
      responses.reject(proxied, recorder.recordUndecided(refusal, proxied, undecided));
    if (user.rejection !== undefined) {
      const rejection = toRefusal('user_mapping', user.rejection);
      rejectUndecided(rejection, { user, body, rule: null, undecided: null, conditions: () => [] });
      return;
    }
    if (user.user !== null && user.mapping?.isForwarded === true) proxied.forwardedUser = user.user;
    const ruleRequest = new ProxiedRuleRequest(proxied, isAnalyzed ? analysis : null, user, body, headers);
    const routed = await router.decide(ruleRequest, current, trace);
    if (response.destroyed) return;
    proxied.decidedAt = clock.monotonic();
    if (routed.refusal !== null) {
      const { refusal, rule, undecided } = routed;
      const conditions = () => conditionsOf(rule, current.rules, ruleRequest, names);
      rejectUndecided(refusal, { user, body, rule, undecided, conditions });
      return;
    }
    const { decision } = routed;
    const rulesVersion = current.rules?.version;
    const submission = { body, user, decision, about: null, transaction: null, rulesVersion, slots: null };
    const survives = current.admission.groups.get(decision.group)?.survival != null;
    const quarantine = survives && body.complete ? (this.#parts.survival?.quarantine ?? null) : null;
    const rejection = (await quarantine?.rejectionOf(proxied, submission)) ?? null;
    if (rejection !== null && !response.destroyed) this.#exchange(proxied, submission).reject(rejection);
    if (rejection !== null || response.destroyed) return;
    const line = fields.get(this.#transactionHeader)?.[0];
    const transaction = line === undefined ? null : transactionIdOf(line);
    const killed = queryProperties?.queryId ?? null;
    const isBound = transaction !== null || killed !== null;
    const statement = isBound
      ? await this.#bind(proxied, submission, transaction, killed)
      : survives
        ? await this.#withSurvival(proxied, submission, queryProperties)
        : submission;
    if (statement === null || response.destroyed) return;
    const { body: content } = statement;
    const admissionRequest = {
      decision,
      user,
      headers: request.rawHeaders,
      body: content,
      bytes: content.bytes.length,
    };
    const admitted = admission.admit(admissionRequest);
    const slots = admitted.slots ?? null;
    // From here on its end gives the slots back, also while it waits.
    const exchange = this.#exchange(proxied, slots === null ? statement : { ...statement, slots });
    if (admitted.kind === 'now') exchange.start();
    else await this.#wait(proxied, statement, exchange, admitted);
  }

  /** The submission of a group with survival: with a record if it may run again. */
  async #withSurvival(
    proxied: ProxiedRequest,
    submission: Submission,
    known: QueryProperties | null,
  ): Promise<Submission> {
    const { survival, analyzer } = this.#parts;
    if (survival === null || !submission.body.complete) return submission;
    const properties = known ?? (await analyzer.analyze(proxied, submission.body)).queryProperties;
    const record = survival.recordOf(submission, properties);
    return record === undefined ? submission : { ...submission, survival: record };
  }

  /** Sends a query from the queue, unless the rules have changed since it was decided, and reject it now. */
  async sendQueued(proxied: ProxiedRequest, submission: Submission, responses: GatewayResponses): Promise<void> {
    const { table, router, analyzer, externalRules, headers } = this.#parts;
    const exchange = new SubmissionExchange({ ...this.#parts, responses }, proxied, submission);
    const { current } = table;
    const quarantine = submission.survival === undefined ? null : (this.#parts.survival?.quarantine ?? null);
    const rejection = (await quarantine?.rejectionOf(proxied, submission)) ?? null;
    if (rejection !== null) {
      exchange.reject(rejection);
      return;
    }
    if (current.rules?.version !== submission.rulesVersion) {
      const { body, user } = submission;
      const needsAnalysis = current.rules?.needsAnalysis === true || externalRules?.needsAnalysis === true;
      const analysis = needsAnalysis ? await analyzer.analyze(proxied, body) : null;
      const routed = await router.decide(new ProxiedRuleRequest(proxied, analysis, user, body, headers), current);
      if (routed.refusal !== null && routed.rule !== null) {
        exchange.reject(routed.refusal);
        return;
      }
    }
    exchange.start();
  }

  /**
   * Sends a submission to the one cluster that can take it: that of its transaction, or of the query that it kills. A statement
   * of a transaction that no one knows is admitted as any other: the engine that gets it states so in its own words.
   * @param transaction that it states; null for none
   * @param killed the query that a call of kill_query names; null for all other statements
   * @returns the submission if any cluster can take it; null once it is sent or rejected
   */
  async #bind(
    proxied: ProxiedRequest,
    submission: Submission,
    transaction: string | null,
    killed: string | null,
  ): Promise<Submission | null> {
    const { transactions, stickiness, table, responses, recorder, admission } = this.#parts;
    const { response, request } = proxied;
    let statement = submission;
    let queryId = killed;
    if (killed !== null && isQueuedId(killed) && this.#queue !== null) {
      const { responses: queueResponses, requests } = this.#queue;
      const result = await requests.kill(proxied, submission.body, submission.user.user, killed);
      if (response.destroyed) return null;
      if (result.kind === 'rejected') responses.reject(proxied, result.refusal);
      else if (result.kind === 'killed') queueResponses.killed(proxied, killed);
      if (result.kind !== 'cluster') return null;
      statement = { ...submission, body: result.body };
      queryId = result.engineId;
    }
    if (transaction !== null) {
      const owner = transactions.ownerNow(transaction) ?? (await transactions.find(transaction));
      if (response.destroyed) return null;
      if (owner === 'undecided') {
        const message = `Which cluster began transaction ${transaction} is not known at the moment; ask again in a second.`;
        const refusal = toRefusal('undecided_transaction', message);
        const { decision } = statement;
        const route = { decision, cluster: null, fallback: false, steps: null, attempts: null, choice: null };
        responses.reject(proxied, recorder.recordRejected(refusal, proxied, statement, route));
        return null;
      }
      const cluster = owner === 'unknown' ? null : ownerCluster(table.current, owner);
      statement = { ...statement, transaction: { id: transaction, cluster } };
    } else if (queryId !== null) {
      // If no replica knows its cluster, any may be the right one.
      const remembered = stickiness.ownerNow(queryId);
      const lookup = remembered === null ? await stickiness.find(queryId) : { owner: remembered };
      if (response.destroyed) return null;
      const about = typeof lookup === 'string' ? null : { queryId, cluster: ownerCluster(table.current, lookup.owner) };
      statement = { ...statement, about };
    }
    const { decision, user, about } = statement;
    const cluster = (statement.transaction ?? about)?.cluster?.name ?? null;
    if (transaction === null ? queryId === null : cluster === null) return statement;
    const admissionRequest = { decision, user, headers: request.rawHeaders, body: statement.body };
    const admitted = (await admission.admitBound?.(admissionRequest, { cluster, transaction })) ?? null;
    const isRejected = admitted !== null && 'reason' in admitted;
    if (response.destroyed) {
      if (!isRejected) admitted?.release();
    } else if (isRejected) this.#exchange(proxied, statement).reject(admitted);
    else this.#exchange(proxied, { ...statement, slots: admitted }).start();
    return null;
  }

  /** Re-queues a submission after every eligible cluster turned out to be full. It keeps its position. */
  #admitAgain(
    proxied: ProxiedRequest,
    submission: Submission,
    exchange: SubmissionExchange,
    excluded: ReadonlyMap<string, string> | null,
  ): void {
    const { admission, clock } = this.#parts;
    const { user, decision } = submission;
    const { rawHeaders: headers } = proxied.request;
    const waitedMs = Math.max(1, clock.monotonic() - proxied.startedAt);
    const admitted = admission.admit({ decision, user, headers, body: submission.body, waitedMs, excluded });
    exchange.submission = { ...exchange.submission, slots: admitted.slots ?? null };
    if (admitted.kind === 'now') exchange.start();
    else
      void this.#parts.responses.guard(proxied, () =>
        this.#wait(proxied, { ...submission, slots: null }, exchange, admitted),
      );
  }

  /** Holds a submission until its turn, and queues it if that takes long. */
  async #wait(
    proxied: ProxiedRequest,
    submission: Submission,
    exchange: SubmissionExchange,
    wait: AdmissionWait,
  ): Promise<void> {
    const { response } = proxied;
    proxied.trace?.step('admission');
    const queue = isStorable(submission) ? (this.#queue?.queue ?? null) : null;
    const holdMs = wait.hold ?? DEFAULT_QUEUE.holdMs;
    const isHeldShortly = queue !== null && holdMs < wait.atMost;
    const giveUp = new AbortController();
    const turn = wait.begin(giveUp.signal);
    let end = await this.#waiting.hold(response, turn, isHeldShortly ? holdMs : wait.atMost, wait.hasToWait);
    if (queue !== null && (end === 'stopped' || (end === 'late' && isHeldShortly))) {
      const entered = await queue.enter(proxied, submission, wait, turn, giveUp);
      if (entered instanceof ClientQuery) {
        // A client that is gone will never ask for it.
        if (response.destroyed) queue.drop(entered.id);
        else {
          exchange.noteQueued(entered.id);
          queue.respondWaiting(entered, proxied, 0);
        }
        return;
      }
      end = entered;
    }
    if (end !== null) giveUp.abort();
    if (end === 'left' || response.destroyed) return;
    if (end === 'late') end = wait.late();
    else if (end === 'stopped') end = stopping;
    else if (end?.reason === 'queue_unavailable') end = wait.whenNotStored?.() === null ? null : end;
    if (end === null) exchange.start();
    else exchange.reject(end);
  }

  #exchange(proxied: ProxiedRequest, submission: Submission): SubmissionExchange {
    return new SubmissionExchange(
      this.#parts,
      proxied,
      submission,
      (exchange, excluded) =>
        void this.#parts.responses.guard(proxied, () => this.#admitAgain(proxied, submission, exchange, excluded)),
    );
  }
}

/** Lets a submission wait that found its cluster full, and has given its slots back. @param excluded clusters that failed it */
export type WaitAgain = (exchange: SubmissionExchange, excluded: ReadonlyMap<string, string> | null) => void;

/** Maximum number of waits of one submission: after a wait a cluster normally has capacity. */
const MAX_WAITS = 3;

/**
 * A submission: repeated on another cluster while that is safe (docs/protocol.md#safe-retry). The query is noted before its
 * client knows of it, so that every replica can serve its follow-ups (docs/protocol.md#learning).
 */
export class SubmissionExchange extends Exchange {
  /** Its slots change with each wait. */
  submission: Submission;
  readonly #outgoing: OutgoingRequest;
  protected override readonly heldStatus = 200;
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
  /** Reason of its rejection by the gateway; null if a cluster responded or failed. */
  #rejection: Refusal['reason'] | null = null;
  #isQueued = false;
  readonly #sender: PickRequest;

  /** @param waitAgain where it may wait when all clusters that could take it are full; null: it is rejected then */
  constructor(parts: ExchangeParts, proxied: ProxiedRequest, submission: Submission, waitAgain?: WaitAgain) {
    super(parts, proxied);
    this.submission = submission;
    this.#waitAgain = waitAgain ?? null;
    this.#sender = { user: submission.user.user, headers: proxied.request.rawHeaders };
    const { body, decision, about, transaction } = submission;
    const began = transaction?.cluster ?? null;
    this.#decision = began === null ? decision : ofTransaction(decision, began);
    this.#bound = began ?? about?.cluster ?? null;
    const lost = submission.survival?.lost ?? [];
    if (lost.length > 0) {
      this.#attempts = lost.map(({ queryId, cluster, reason }) => ({ cluster, error: `${reason}; lost ${queryId}` }));
      this.#excluded = new Map(lost.map(({ cluster, reason }) => [cluster, reason]));
    }
    const content = body.complete ? body.bytes : this.relay(body.bytes);
    this.#outgoing = outgoingRequest(parts, proxied, decision, content);
  }

  /** Chooses a cluster and sends the submission there, or rejects it. */
  start(): void {
    const { parts, proxied } = this;
    const { slots, transaction } = this.submission;
    if (this.#bound === null) proxied.trace?.step('choice');
    const hasCapacity = slots === null ? undefined : (cluster: string) => slots.mayUse(cluster);
    const target =
      this.#bound === null
        ? chooseTarget(parts, this.#decision, this.#sender, this.#excluded, null, hasCapacity)
        : onlyTarget(parts, this.#bound);
    this.#choice = target.choice;
    if (target.cluster === null) {
      this.reject(transaction !== null && !target.pending ? unknownTransaction(transaction.id) : target.refusal);
      return;
    }
    const { cluster, upstream } = target;
    this.#target = target;
    this.destination = cluster;
    const full = slots?.takeCluster(cluster) ?? null;
    if (full !== null) this.#endFull(full);
    else if (upstream === null) this.fail(new Error(`proxyTo ${cluster.proxyTo} is not an HTTP URL`), 'connecting');
    else if (upstream.inFlight >= upstream.limit) this.reject(overloaded(cluster.name));
    else {
      this.#counted = parts.chooser.countSubmission(parts.table.current, cluster, this.#sender);
      const outgoing = this.#outgoing;
      this.send(upstream, outgoing.isCommon ? outgoing : requestTo(parts, cluster, outgoing, proxied));
    }
  }

  /** Notes that its client gets a response as for a query that waits, which this exchange does not send. */
  noteQueued(id: string): void {
    this.#queryId = id;
    this.#isQueued = true;
  }

  protected override queryId(): null {
    return null;
  }

  /** The cluster has no free slot: another query took it since, or those that had one failed. */
  #endFull(full: Refusal): void {
    if (this.#waitAgain === null || this.#waits >= MAX_WAITS) {
      this.reject(full);
      return;
    }
    this.#waits += 1;
    this.#target = null;
    this.destination = nowhere;
    this.submission.slots?.release();
    this.#waitAgain(this, this.#excluded);
  }

  override reject(refusal: Refusal): void {
    this.#rejection = refusal.reason;
    super.reject(this.parts.recorder.recordRejected(refusal, this.proxied, this.submission, this.#route()));
  }

  protected override onFailure(failure: AttemptFailure): void {
    this.#counted?.withdraw();
    const { error, stage, reason } = failure;
    const cluster = this.destination.name;
    this.#attempts ??= [];
    this.#attempts.push({ cluster, error: reason });
    if (this.#bound !== null && stage === 'connecting' && !isOwnFault(error)) {
      const { about, transaction } = this.submission;
      if (about !== null && transaction === null) {
        this.reject(unreachableOwner(about.queryId, cluster, reason));
        return;
      }
      // The transaction is lost with its cluster: another one states so in the engine's words, and takes the ROLLBACK.
      this.#bound = null;
      this.#decision = this.submission.decision;
    }
    const isUnanswered = stage !== 'connecting' && this.#queryId === null && isReset(error);
    const next = isUnanswered ? (this.parts.survival?.decisionAfter(this.submission, this.#attempts) ?? null) : null;
    if (next !== null) this.#decision = next;
    else if (!this.#mayRepeat(failure)) {
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
    if (!this.submission.body.complete || isOwnFault(error)) return false;
    if (stage === 'connecting') return !isBound;
    if (isBound && this.#hasRepeated) return false;
    return this.parts.settings.retrySubmissions === 'untilAnswered' && stage === 'sent' && isReset(error);
  }

  protected override holds(status: number): boolean {
    if (status === 406) {
      const { name, proxyTo } = this.destination;
      this.parts.forwardedCheck.noteRejection(name, proxyTo);
    }
    return false;
  }

  protected override inspect(buffered: BufferedResponse): void {
    const match = readId(buffered);
    const isAwaited = this.submission.survival !== undefined && !buffered.isWhole && buffered.size < MIN_BUFFERED_BODY;
    if (match === null || isAwaited) return;
    buffered.isDeciding = true;
    if (match === 'absent' || this.#target === null) this.release();
    else {
      this.#take(match.id, this.#target.cluster, match.text, buffered).catch((error: Error) => {
        // The query cannot be noted, by a defect: its client gets nothing of the response.
        this.discard();
        if (this.isAwaited) this.parts.responses.failure(this.proxied, error, true);
      });
    }
  }

  /**
   * The cluster accepted the query: notes owner, transaction and history before the client knows of it. Nothing is waited
   * for unless it has to be stored first.
   */
  async #take(queryId: string, cluster: ClusterEntry, text: string, reply: Readonly<BufferedResponse>): Promise<void> {
    const { stickiness, ownership, transactions, recorder, settings, forwardedCheck } = this.parts;
    const { proxied, submission } = this;
    const { slots, transaction } = submission;
    const { view } = this.#outgoing;
    const { name, proxyTo, uid } = cluster;
    const route = this.#route();
    this.#queryId = queryId;
    this.#counted?.confirm();
    const claim = stickiness.claims.learn(queryId, { cluster: name, proxyTo, uid });
    if (claim !== null) {
      this.pauseResponse();
      const conflict = await claim;
      if (conflict !== null) {
        // Nothing of the response reaches the client, who would ask the owner next.
        ownership.conflict(name, queryId, conflict);
        this.#queryId = null;
        this.discard();
        if (this.isAwaited) this.reject(conflictingQueryId(queryId, name, conflict.kind));
        return;
      }
    }
    const facts = recorder.begin(queryId, proxied, submission, route);
    // The cluster's URLs have to point to the gateway.
    if (view !== null) forwardedCheck.noteResponse(name, proxyTo, text, view);
    const onNext = slots === null ? null : () => slots.bind(queryId, name);
    const watch = new ResponseWatch(this.parts, queryId, name, 'POST', reply, onNext);
    // Nearly always the next URI stands in the start of the response.
    const isRead = watch.readStart(text, reply);
    if (isRead && !reply.isWhole) this.watch = watch;
    if (transaction !== null) transactions.noteStatement(queryId, transaction.id);
    let isOfTransaction = false;
    for (const key of transactions.responseKeys) isOfTransaction ||= reply.headers[key] !== undefined;
    const storing = isOfTransaction
      ? transactions.noteResponse(queryId, reply.headers, { cluster: name, proxyTo })
      : null;
    if (storing !== null) {
      // The transaction has its slots from now on, also if this is the last response.
      slots?.bind(queryId, name);
      this.pauseResponse();
      await storing;
    }
    if (!isRead) watch.readAll(reply);
    if (!isRead && !reply.isWhole) this.watch = watch;
    if (submission.survival !== undefined && !(await this.#survives(queryId, reply))) return;
    // Most clients do not wait for the history.
    if (!settings.historyBeforeResponse) this.release();
    recorder.record(queryId, cluster, proxied, submission, route, facts);
    if (!settings.historyBeforeResponse) return;
    this.pauseResponse();
    await recorder.whenWritten(queryId);
    this.release();
  }

  /** Stores a query that may run again. @returns false if it was rejected */
  async #survives(queryId: string, reply: BufferedResponse): Promise<boolean> {
    const { submission, parts } = this;
    const page = (await parts.survival?.accept(this.proxied, submission, queryId, reply)) ?? null;
    const error = submission.survival === undefined ? null : firstError(submission.survival);
    if (page === 'different') {
      this.#cancel(reply);
      this.discard();
      if (error !== null)
        this.reject(toRefusal('owner_gone', `Query ${queryId} has other columns than the attempt before it.`));
      return false;
    }
    if (page !== null) this.replaceBody(reply, page);
    return true;
  }

  /** Cancels the query of a response that its client does not get. */
  #cancel({ chunks }: BufferedResponse): void {
    const target = nextTargetOf(Buffer.concat(chunks));
    if (target === null) return;
    const headers = withoutBody(this.#outgoing.headers as readonly string[]);
    void this.upstream?.ask('DELETE', targetText(target), headers, CANCEL_TIMEOUT_MS).catch(() => undefined);
  }

  protected override respondingCluster(): RespondingCluster {
    const { cluster, fallback, steps } = this.#target as Target;
    const admission = waitNote(this.submission);
    return { cluster, decision: this.#decision, fallback, steps, admission, handshake: null };
  }

  protected override onEnd(how: ExchangeEnd): void {
    // One that never got an id is no query of the cluster; without effect for all others.
    this.#counted?.withdraw();
    this.watch?.breakOff();
    // One that waits keeps its place; the exchange that sends it gives the slots back.
    if (!this.#isQueued) this.submission.slots?.release();
    const { proxied } = this;
    const { metrics, recorder } = this.parts;
    const route = this.#route();
    const status = how === 'client_gone' || how === 'cut' ? 0 : this.response.statusCode;
    const { group, decidedBy, rule } = this.#decision;
    proxied.trace?.note({
      'engine_gateway.routing_group': group,
      'engine_gateway.decided_by': decidedBy,
      'engine_gateway.query_digest': recorder.digestsOf(proxied, this.submission).shape,
      ...(rule === null ? {} : { 'engine_gateway.rule': rule }),
      ...(this.#queryId === null ? {} : { 'engine_gateway.query_id': this.#queryId }),
      ...(this.#attempts === null ? {} : { 'engine_gateway.attempts': this.#attempts.length + 1 }),
    });
    metrics.noteEnd(proxied, status, this.status, this.status === 0 ? null : (this.#target?.cluster.name ?? null));
    if (this.status >= 400) this.#queryId = recorder.recordFailed(this.status, proxied, this.submission, route);
    const outcome = this.#isQueued ? 'queued' : this.#rejection;
    recorder.logEnd(proxied, this.submission, route, this.#queryId, outcome, status);
  }

  #route(): SubmissionRoute {
    const { cluster, fallback, steps } = this.#target ?? { cluster: null, fallback: false, steps: null };
    return { decision: this.#decision, cluster, fallback, steps, attempts: this.#attempts, choice: this.#choice };
  }
}
