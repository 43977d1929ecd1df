import type { Clock } from '../../model/clock.ts';
import { DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import { isQueuedId } from '../../routing/queryId.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { Admission, AdmissionWait } from '../admission/admission.ts';
import { type HandOver, WaitingRequests } from '../admission/waitingRequests.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { QueryRecorder } from '../exchanges/queryRecorder.ts';
import type { Submission } from '../exchanges/submission.ts';
import { type SubmissionDependencies, SubmissionExchange, type WaitAgain } from '../exchanges/submissionExchange.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { DurableQueue } from '../queue/durableQueue.ts';
import type { QueuedKills } from '../queue/queuedKills.ts';
import type { PollAnswers } from '../queue/queuedPolls.ts';
import type { RequestRouting, RoutedSubmission } from './requestRouting.ts';
import type { RequestSteps } from './requestSteps.ts';
import type { SubmissionBinding } from './submissionBinding.ts';
import type { SubmissionBodies } from './submissionBodies.ts';

/** Queue of submissions with responses to their clients in between. */
export interface SubmissionQueue {
  readonly room: Pick<DurableQueue, 'canKeep' | 'enter' | 'drop'>;
  readonly answers: Pick<PollAnswers, 'waiting' | 'killed'>;
  readonly kills: Pick<QueuedKills, 'kill'>;
}

/** The steps of a submission, in this order, and what notes them. */
export interface SubmissionsDependencies {
  readonly bodies: SubmissionBodies;
  readonly routing: Pick<RequestRouting, 'submission'>;
  readonly binding: SubmissionBinding;
  readonly admission: Admission;
  /** Keeps submissions that wait for long; null if none can be kept. */
  readonly queue: SubmissionQueue | null;
  readonly exchange: SubmissionDependencies;
  readonly steps: RequestSteps;
  readonly answers: Pick<GatewayAnswers, 'refuse'>;
  readonly metrics: Pick<DataPlaneMetrics, 'submission'>;
  readonly recorder: Pick<QueryRecorder, 'recordRefused' | 'recordUndecided'>;
  readonly clock: Pick<Clock, 'monotonic'>;
}

const stopping: Refusal = {
  reason: 'stopping',
  message: 'This gateway is stopping and takes no new queries; send it again, another one answers.',
  queryId: null,
};

/** New queries: body, analysis, group, admission, and off to a cluster. */
export class Submissions {
  readonly #dependencies: SubmissionsDependencies;
  readonly #steps: RequestSteps;
  readonly #waiting = new WaitingRequests();
  #stopping = false;

  constructor(dependencies: SubmissionsDependencies) {
    this.#dependencies = dependencies;
    this.#steps = dependencies.steps;
  }

  /**
   * From now on all are rejected, as the gateway is stopping; those that wait to be admitted go into the queue, or are
   * rejected.
   */
  refuseAll(): void {
    this.#stopping = true;
    this.#waiting.endAll(stopping);
  }

  /** Takes a new query: reads its body first. */
  submit(proxied: ProxiedRequest): void {
    const { answers, metrics, bodies } = this.#dependencies;
    if (this.#stopping) {
      answers.refuse(proxied, stopping);
      return;
    }
    metrics.submission();
    bodies.read(
      proxied,
      (body) => this.#steps.guarded(proxied, () => this.#route(proxied, body)),
      (refusal) => answers.refuse(proxied, refusal),
    );
  }

  #route(proxied: ProxiedRequest, body: BodyStart): void {
    this.#dependencies.routing.submission(proxied, body, (routed, analysis) =>
      this.#take(proxied, body, routed, analysis),
    );
  }

  /** The routers have decided: rejects the query, or binds it to a cluster where only one can take it. */
  #take(proxied: ProxiedRequest, body: BodyStart, routed: RoutedSubmission, { user, queryProperties }: Analysis): void {
    if (routed.refusal !== null) {
      const { refusal, rule, undecided, conditions } = routed;
      const { answers, recorder } = this.#dependencies;
      answers.refuse(proxied, recorder.recordUndecided(refusal, proxied, { user, body, rule, undecided, conditions }));
      return;
    }
    const submission = { body, user, decision: routed.decision, about: null, transaction: null, slots: null };
    const killed = queryProperties?.queryId ?? null;
    if (killed !== null && isQueuedId(killed)) this.#kill(proxied, submission, killed);
    else this.#bind(proxied, submission, killed);
  }

  /** A call of kill_query that names an id of the gateway's own: of a query that waits, or waited. */
  #kill(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const { queue, answers } = this.#dependencies;
    if (queue === null) {
      this.#bind(proxied, submission, id);
      return;
    }
    const { body, user } = submission;
    this.#steps.settle(proxied, queue.kills.kill(proxied, body, user.user, id), (answer) => {
      if (answer.kind === 'refused') answers.refuse(proxied, answer.refusal);
      else if (answer.kind === 'killed') queue.answers.killed(proxied, id);
      else this.#bind(proxied, { ...submission, body: answer.body }, answer.engineId);
    });
  }

  /** Finds the one cluster that can take a submission; where it is missing, it is admitted first. */
  #bind(proxied: ProxiedRequest, submission: Submission, killed: string | null): void {
    const binding = this.#dependencies.binding.find(proxied, killed);
    if (binding === null) {
      this.#admit(proxied, submission);
      return;
    }
    this.#steps.settle(proxied, binding, (bound) => {
      if (bound.refusal !== null) {
        const { answers, recorder } = this.#dependencies;
        const route = {
          decision: submission.decision,
          cluster: null,
          fallback: false,
          steps: null,
          attempts: null,
          choice: null,
        };
        answers.refuse(proxied, recorder.recordRefused(bound.refusal, proxied, submission, route));
      } else {
        const { about, transaction } = bound;
        const { decision, user } = submission;
        const request = { decision, user, headers: proxied.request.rawHeaders };
        const slots = this.#dependencies.admission.countBound?.(request) ?? null;
        this.#exchange(proxied, { ...submission, about, transaction, slots }).start();
      }
    });
  }

  #admit(proxied: ProxiedRequest, submission: Submission): void {
    const { user, decision } = submission;
    const admitted = this.#dependencies.admission.admit({ decision, user, headers: proxied.request.rawHeaders });
    const slots = admitted.answer === 'refuse' ? null : (admitted.slots ?? null);
    // From here on its end gives the slots back, also while it waits.
    const exchange = this.#exchange(proxied, slots === null ? submission : { ...submission, slots });
    if (admitted.answer === 'now') exchange.start();
    else if (admitted.answer === 'refuse') exchange.refuse(admitted.refusal);
    else this.#wait(proxied, submission, exchange, admitted);
  }

  /** All clusters that could take a submission are full after another failed it: it waits for them, with the place that it had. */
  #admitAgain(
    proxied: ProxiedRequest,
    submission: Submission,
    exchange: SubmissionExchange,
    excluded: ReadonlyMap<string, string> | null,
  ): void {
    const { admission, clock } = this.#dependencies;
    const { user, decision } = submission;
    const waitedMs = Math.max(1, clock.monotonic() - proxied.startedAt);
    const admitted = admission.admit({ decision, user, headers: proxied.request.rawHeaders, waitedMs, excluded });
    if (admitted.answer === 'refuse') {
      exchange.refuse(admitted.refusal);
      return;
    }
    exchange.takeSlots(admitted.slots ?? null);
    if (admitted.answer === 'now') exchange.start();
    else this.#wait(proxied, { ...submission, slots: null }, exchange, admitted);
  }

  /** Holds a submission until its turn, and lets it wait in the queue when that takes long. */
  #wait(proxied: ProxiedRequest, submission: Submission, exchange: SubmissionExchange, wait: AdmissionWait): void {
    proxied.trace?.step('admission');
    const { queue } = this.#dependencies;
    const isKept = queue?.room.canKeep(submission) === true;
    const handOver: HandOver | null = isKept
      ? {
          after: wait.hold ?? DEFAULT_QUEUE.holdMs,
          take: (turn, giveUp) => {
            const begun = { wait, turn, giveUp, since: proxied.startedAt, slots: wait.slots ?? null };
            const entering = queue.room.enter(proxied, submission, begun).then((entered) => {
              // Its client will never ask for it.
              if (entered.id !== null && proxied.response.destroyed) queue.room.drop(entered.id);
              return entered;
            });
            this.#steps.settle(proxied, entering, (entered) => {
              if (entered.id === null) this.#goOnUnkept(exchange, entered.refusal, wait);
              else {
                exchange.noteQueued(entered.id);
                queue.answers.waiting(proxied, entered.id, 0, entered.waitedMs, entered.state);
              }
            });
          },
        }
      : null;
    this.#steps.settle(proxied, this.#waiting.hold(proxied.response, wait, handOver), (refusal) => {
      if (refusal === null) exchange.start();
      else exchange.refuse(refusal);
    });
  }

  /** A submission that should wait in the queue, and cannot be kept there. */
  #goOnUnkept(exchange: SubmissionExchange, refusal: Refusal, { whenUnkept }: AdmissionWait): void {
    if (refusal.reason === 'queue_unavailable' && whenUnkept?.() === null) exchange.start();
    else exchange.refuse(refusal);
  }

  #exchange(proxied: ProxiedRequest, submission: Submission): SubmissionExchange {
    const waitAgain: WaitAgain = (exchange, excluded) =>
      this.#steps.guarded(proxied, () => this.#admitAgain(proxied, submission, exchange, excluded));
    return new SubmissionExchange(this.#dependencies.exchange, proxied, submission, waitAgain);
  }
}
