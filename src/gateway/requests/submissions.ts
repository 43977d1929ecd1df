import { firstHeader } from '../../model/rawHeaders.ts';
import { DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import { isQueuedId, transactionIdOf } from '../../routing/queryId.ts';
import { type Refusal, toRefusal, userRefusal } from '../../routing/refusal.ts';
import type { AdmissionWait } from '../admission/admission.ts';
import { type HandOver, WaitingRequests } from '../admission/waitingRequests.ts';
import { type Analysis, mayKillQuery } from '../analysis/requestAnalyzer.ts';
import { type BodyStart, noMemoryForBody } from '../bodies/requestBodies.ts';
import type { DataPlaneParts, QueueParts } from '../dataPlane.ts';
import type { GatewayResponses } from '../exchanges/ownResponses.ts';
import { conditionsOf, type Submission, type UndecidedSubmission } from '../exchanges/queryRecorder.ts';
import { SubmissionExchange } from '../exchanges/submissionExchange.ts';
import { ownerCluster } from '../ownership/queryOwner.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { noteUser, ProxiedRuleRequest } from './clusterRequests.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;

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
    this.#waiting.endAll(stopping);
  }

  /** Takes a new query. */
  async submit(proxied: ProxiedRequest): Promise<void> {
    const { responses, metrics, analyzer, router, table, headers, clock, names } = this.#parts;
    const { request, response, trace } = proxied;
    if (this.#stopping) {
      responses.reject(proxied, stopping);
      return;
    }
    metrics.submission();
    const body = await this.#read(proxied);
    if (body === null) return;
    trace?.step('analysis');
    const { current } = table;
    const whole = body.complete ? body : null;
    // Calls of kill_query are recognized by the analysis.
    const isAnalyzed =
      router.needsAnalysis(current) || (whole !== null && mayKillQuery(whole.text, request, this.#preparedHeader));
    const analysis: Analysis = isAnalyzed
      ? await analyzer.analyze(request, whole, true)
      : { user: await analyzer.user(request), queryProperties: null };
    if (response.destroyed) return;
    proxied.analysedAt = clock.monotonic();
    const { user, queryProperties } = analysis;
    const rejection = userRefusal(user);
    if (rejection !== null) {
      this.#rejectUndecided(proxied, rejection, { user, body, rule: null, undecided: null, conditions: () => [] });
      return;
    }
    noteUser(proxied, user);
    const ruleRequest = new ProxiedRuleRequest(proxied, isAnalyzed ? analysis : null, user, body, headers);
    const routed = await router.decide(ruleRequest, current, trace);
    if (response.destroyed) return;
    proxied.decidedAt = clock.monotonic();
    if (routed.refusal !== null) {
      const { refusal, rule, undecided } = routed;
      const conditions = () => conditionsOf(rule, current.rules, ruleRequest, names);
      this.#rejectUndecided(proxied, refusal, { user, body, rule, undecided, conditions });
      return;
    }
    const { decision } = routed;
    const rulesVersion = current.rules?.version;
    const submission = { body, user, decision, about: null, transaction: null, rulesVersion, slots: null };
    await this.#bind(proxied, submission, queryProperties?.queryId ?? null);
  }

  /** Sends a query from the queue, unless the rules have changed since it was decided, and reject it now. */
  async sendQueued(proxied: ProxiedRequest, submission: Submission, responses: GatewayResponses): Promise<void> {
    const { table, router, analyzer, headers } = this.#parts;
    const exchange = new SubmissionExchange({ ...this.#parts, responses }, proxied, submission);
    const { current } = table;
    if (current.rules?.version !== submission.rulesVersion) {
      const { body, user } = submission;
      const analysis = router.needsAnalysis(current) ? await analyzer.analyze(proxied.request, body, true) : null;
      const routed = await router.decide(new ProxiedRuleRequest(proxied, analysis, user, body, headers), current);
      if (routed.refusal !== null && routed.rule !== null) {
        exchange.reject(routed.refusal);
        return;
      }
    }
    exchange.start();
  }

  /** The body of a submission, or its start if it is longer than what is buffered; null if it is rejected. */
  #read(proxied: ProxiedRequest): Promise<BodyStart | null> {
    const { bodies, settings, responses } = this.#parts;
    const { maxAnalyzedBody } = settings;
    return new Promise((resolve) => {
      const limit = Math.max(maxAnalyzedBody, MIN_BUFFERED_BODY);
      bodies.read(proxied.request, proxied.response, limit, resolve, () => {
        responses.reject(proxied, noMemoryForBody(bodies));
        resolve(null);
      });
    });
  }

  #rejectUndecided(proxied: ProxiedRequest, refusal: Refusal, submission: UndecidedSubmission): void {
    const { responses, recorder } = this.#parts;
    responses.reject(proxied, recorder.recordUndecided(refusal, proxied, submission));
  }

  /**
   * Sends a submission to the one cluster that can take it: that of its transaction, or of the query that it kills. Without
   * one, it is admitted first.
   * @param killed the query that a call of kill_query names; null for all other statements
   */
  async #bind(proxied: ProxiedRequest, submission: Submission, killed: string | null): Promise<void> {
    const { request, response } = proxied;
    let statement = submission;
    let queryId = killed;
    if (killed !== null && isQueuedId(killed) && this.#queue !== null) {
      const { responses, kills } = this.#queue;
      const result = await kills.kill(proxied, submission.body, submission.user.user, killed);
      if (response.destroyed) return;
      if (result.kind === 'rejected') this.#parts.responses.reject(proxied, result.refusal);
      else if (result.kind === 'killed') responses.killed(proxied, killed);
      if (result.kind !== 'cluster') return;
      statement = { ...submission, body: result.body };
      queryId = result.engineId;
    }
    const transaction = transactionIdOf(firstHeader(request.rawHeaders, this.#transactionHeader));
    if (transaction !== null) await this.#sendInTransaction(proxied, statement, transaction);
    else if (queryId !== null) await this.#sendAbout(proxied, statement, queryId);
    else this.#admit(proxied, statement);
  }

  /**
   * A statement of a transaction goes to the cluster that began it. One that no one knows is admitted as any other
   * submission: the engine that gets it states so in its own words.
   */
  async #sendInTransaction(proxied: ProxiedRequest, submission: Submission, id: string): Promise<void> {
    const { transactions, table, responses, recorder } = this.#parts;
    const owner = transactions.ownerNow(id) ?? (await transactions.find(id));
    if (proxied.response.destroyed) return;
    if (owner === 'undecided') {
      const message = `Which cluster began transaction ${id} is not known at the moment; ask again in a second.`;
      const refusal = toRefusal('undecided_transaction', message);
      const { decision } = submission;
      const route = { decision, cluster: null, fallback: false, steps: null, attempts: null, choice: null };
      responses.reject(proxied, recorder.recordRejected(refusal, proxied, submission, route));
      return;
    }
    if (owner === 'unknown') this.#admit(proxied, { ...submission, transaction: { id, cluster: null } });
    else
      await this.#sendBound(proxied, {
        ...submission,
        transaction: { id, cluster: ownerCluster(table.current, owner) },
      });
  }

  /** A call of kill_query goes to the cluster of the query; if no replica knows it, to any, which may be the right one. */
  async #sendAbout(proxied: ProxiedRequest, submission: Submission, queryId: string): Promise<void> {
    const { stickiness, table } = this.#parts;
    const remembered = stickiness.ownerNow(queryId);
    const lookup = remembered === null ? await stickiness.find(queryId) : { owner: remembered };
    if (proxied.response.destroyed) return;
    const about = typeof lookup === 'string' ? null : { queryId, cluster: ownerCluster(table.current, lookup.owner) };
    await this.#sendBound(proxied, { ...submission, about });
  }

  async #sendBound(proxied: ProxiedRequest, submission: Submission): Promise<void> {
    const { decision, user, transaction, about } = submission;
    const { rawHeaders: headers } = proxied.request;
    const bound = { cluster: (transaction ?? about)?.cluster?.name ?? null, transaction: transaction?.id ?? null };
    const admitted = (await this.#parts.admission.admitBound?.({ decision, user, headers }, bound)) ?? null;
    const isRejected = admitted !== null && 'reason' in admitted;
    if (proxied.response.destroyed) {
      if (!isRejected) admitted?.release();
    } else if (isRejected) this.#exchange(proxied, submission).reject(admitted);
    else this.#exchange(proxied, { ...submission, slots: admitted }).start();
  }

  #admit(proxied: ProxiedRequest, submission: Submission): void {
    const { user, decision } = submission;
    const { rawHeaders: headers } = proxied.request;
    const bytes = submission.body.bytes.length;
    const admitted = this.#parts.admission.admit({ decision, user, headers, bytes });
    const slots = admitted.kind === 'reject' ? null : (admitted.slots ?? null);
    // From here on its end gives the slots back, also while it waits.
    const exchange = this.#exchange(proxied, slots === null ? submission : { ...submission, slots });
    if (admitted.kind === 'now') exchange.start();
    else if (admitted.kind === 'reject') exchange.reject(admitted.refusal);
    else this.#wait(proxied, submission, exchange, admitted);
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
    const admitted = admission.admit({ decision, user, headers, waitedMs, excluded });
    if (admitted.kind === 'reject') {
      exchange.reject(admitted.refusal);
      return;
    }
    exchange.takeSlots(admitted.slots ?? null);
    if (admitted.kind === 'now') exchange.start();
    else this.#wait(proxied, { ...submission, slots: null }, exchange, admitted);
  }

  /** Holds a submission until its turn, and lets it wait in the queue when that takes long. */
  #wait(proxied: ProxiedRequest, submission: Submission, exchange: SubmissionExchange, wait: AdmissionWait): void {
    proxied.trace?.step('admission');
    const { responses } = this.#parts;
    const queue = this.#queue;
    const handOver: HandOver | null =
      queue?.queue.canKeep(submission) === true
        ? {
            after: wait.hold ?? DEFAULT_QUEUE.holdMs,
            take: (turn, giveUp) =>
              void responses.guard(proxied, async () => {
                const begun = { wait, turn, giveUp, since: proxied.startedAt, slots: wait.slots ?? null };
                const entered = await queue.queue.enter(proxied, submission, begun);
                // A client that is gone will never ask for it.
                if (proxied.response.destroyed) {
                  if (entered.id !== null) queue.queue.drop(entered.id);
                } else if (entered.id !== null) {
                  exchange.noteQueued(entered.id);
                  queue.responses.waiting(proxied, entered.id, 0, entered.waitedMs, entered.state);
                  // It cannot be kept there.
                } else if (entered.refusal.reason === 'queue_unavailable' && wait.whenNotStored?.() === null)
                  exchange.start();
                else exchange.reject(entered.refusal);
              }),
          }
        : null;
    void responses.guard(proxied, async () => {
      const refusal = await this.#waiting.hold(proxied.response, wait, handOver);
      if (proxied.response.destroyed) return;
      if (refusal === null) exchange.start();
      else exchange.reject(refusal);
    });
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
