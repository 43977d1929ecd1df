import type { Refusal } from '../../routing/refusal.ts';
import type { Routed } from '../../routing/routers/routerChain.ts';
import type { Admission } from '../admission/admission.ts';
import { HeldSubmissions } from '../admission/heldSubmissions.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { QueryRecorder } from '../exchanges/queryRecorder.ts';
import type { Submission } from '../exchanges/submission.ts';
import { type SubmissionDependencies, SubmissionExchange } from '../exchanges/submissionExchange.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { RequestRouting } from './requestRouting.ts';
import type { RequestSteps } from './requestSteps.ts';
import type { SubmissionBinding } from './submissionBinding.ts';
import type { SubmissionBodies } from './submissionBodies.ts';

/** The steps of a submission, in this order, and what notes them. */
export interface SubmissionsDependencies {
  readonly bodies: SubmissionBodies;
  readonly routing: Pick<RequestRouting, 'submission'>;
  readonly binding: SubmissionBinding;
  readonly admission: Admission;
  /** What its exchange with a cluster works with. */
  readonly exchange: SubmissionDependencies;
  readonly steps: RequestSteps;
  readonly answers: Pick<GatewayAnswers, 'refuse'>;
  readonly metrics: Pick<DataPlaneMetrics, 'submission'>;
  readonly recorder: Pick<QueryRecorder, 'logDenied'>;
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
  readonly #waiting = new HeldSubmissions();
  #stopping = false;

  constructor(dependencies: SubmissionsDependencies) {
    this.#dependencies = dependencies;
    this.#steps = dependencies.steps;
  }

  /** From now on all are refused, also those that wait to be admitted: the gateway is stopping. */
  refuseAll(): void {
    this.#stopping = true;
    this.#waiting.refuseAll(stopping);
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

  /** The routers have decided: refuses the query, or binds it to a cluster where only one can take it. */
  #take(proxied: ProxiedRequest, body: BodyStart, routed: Routed, { user, queryProperties }: Analysis): void {
    if (routed.refusal !== null) {
      const { refusal, rule } = routed;
      this.#dependencies.answers.refuse(proxied, refusal);
      if (refusal.reason === 'denied') this.#dependencies.recorder.logDenied(proxied, user, rule);
      return;
    }
    const submission = { body, user, decision: routed.decision, about: null, transaction: null, slots: null };
    const binding = this.#dependencies.binding.find(proxied, queryProperties?.queryId ?? null);
    if (binding === null) {
      this.#admit(proxied, submission);
      return;
    }
    this.#steps.settle(proxied, binding, (bound) => {
      if (bound.refusal !== null) this.#dependencies.answers.refuse(proxied, bound.refusal);
      else {
        const { about, transaction } = bound;
        const request = { decision: routed.decision, user, headers: proxied.request.rawHeaders };
        const slots = this.#dependencies.admission.countBound?.(request) ?? null;
        this.#exchange(proxied, { ...submission, about, transaction, slots }).start();
      }
    });
  }

  /** Sends a submission on when it is admitted. */
  #admit(proxied: ProxiedRequest, submission: Submission): void {
    const { user, decision } = submission;
    const admitted = this.#dependencies.admission.admit({ decision, user, headers: proxied.request.rawHeaders });
    const slots = admitted.answer === 'refuse' ? null : (admitted.slots ?? null);
    // From here on its end gives the slots back, also while it waits.
    const exchange = this.#exchange(proxied, slots === null ? submission : { ...submission, slots });
    if (admitted.answer === 'now') exchange.start();
    else if (admitted.answer === 'refuse') exchange.refuse(admitted.refusal);
    else {
      proxied.trace?.step('admission');
      this.#steps.settle(proxied, this.#waiting.hold(proxied.response, admitted), (refusal) => {
        if (refusal === null) exchange.start();
        else exchange.refuse(refusal);
      });
    }
  }

  #exchange(proxied: ProxiedRequest, submission: Submission): SubmissionExchange {
    return new SubmissionExchange(this.#dependencies.exchange, proxied, submission);
  }
}
