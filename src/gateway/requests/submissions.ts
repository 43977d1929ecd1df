import { firstHeader } from '../../model/rawHeaders.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RouterChain } from '../../routing/routers/routerChain.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { transactionIdOf } from '../../routing/transactionId.ts';
import type { Admission } from '../admission/admission.ts';
import { HeldSubmissions } from '../admission/heldSubmissions.ts';
import { mayKillQuery } from '../analysis/killQuery.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { BodyFault } from '../bodies/requestBodies.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import type { Submission } from '../exchanges/submission.ts';
import { SubmissionExchange } from '../exchanges/submissionExchange.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;
/** Memory for each byte of a submission: pieces as they come, joined, as text, and what of these is not collected yet. */
const BYTES_PER_BYTE = 4;
/** The same where the external rules service is told the text: as JSON, encoded, and on its way. */
const BYTES_PER_BYTE_TOLD = 6;

/** What decides about submissions. */
export interface SubmissionDecisions {
  readonly routers: RouterChain;
  /** Whether a router sends the statement's text on. */
  readonly tellsText: boolean;
  readonly admission: Admission;
}

const stopping: Refusal = {
  reason: 'stopping',
  message: 'This gateway is stopping and takes no new queries; send it again, another one answers.',
  queryId: null,
};

/** New queries: body, analysis, group, admission, and off to a cluster. */
export class Submissions {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #decisions: SubmissionDecisions;
  readonly #held = new HeldSubmissions();
  readonly #preparedHeader: string;
  readonly #transactionHeader: string;
  #stopping = false;

  constructor(context: DataPlaneContext, steps: RequestSteps, decisions: SubmissionDecisions) {
    this.#context = context;
    this.#steps = steps;
    this.#decisions = decisions;
    this.#preparedHeader = context.names.headerKey('Prepared-Statement');
    this.#transactionHeader = context.names.headerKey('Transaction-Id');
  }

  /** From now on all are refused, also those that wait to be admitted: the gateway is stopping. */
  refuseAll(): void {
    this.#stopping = true;
    this.#held.refuseAll(stopping);
  }

  submit(proxied: ProxiedRequest): void {
    if (this.#stopping) {
      this.#context.refuse(proxied, stopping);
      return;
    }
    this.#context.metrics.submission();
    const { request } = proxied;
    const { bodies, settings } = this.#context;
    const reading = {
      limit: Math.max(settings().maxAnalyzedBody, MIN_BUFFERED_BODY),
      bytesPerByte: this.#decisions.tellsText ? BYTES_PER_BYTE_TOLD : BYTES_PER_BYTE,
    };
    const done = (body: BodyStart) => this.#steps.guarded(proxied, () => this.#analyze(proxied, body));
    bodies.read(request, reading, done, (fault) => this.#refuseBody(proxied, fault));
  }

  #refuseBody(proxied: ProxiedRequest, fault: BodyFault): void {
    const { bodies, settings } = this.#context;
    this.#context.refuse(proxied, bodyRefusal(fault, bodies, settings().maxBodySize));
  }

  /** Finds out what the decision needs to know; goes on at once where nothing has to be waited for. */
  #analyze(proxied: ProxiedRequest, body: BodyStart): void {
    const { analyzer, table } = this.#context;
    const known = table.current;
    proxied.trace?.step('analysis');
    const whole = body.complete ? body : null;
    const needsAll =
      this.#decisions.routers.needsAnalysis(known) ||
      (whole !== null && mayKillQuery(body.text, proxied.request, this.#preparedHeader));
    if (needsAll) {
      this.#steps.settle(proxied, analyzer.analyze(proxied.request, whole, true), (analysis) =>
        this.#route(proxied, body, known, analysis, analysis),
      );
    } else {
      this.#steps.settle(proxied, analyzer.user(proxied.request), (user) =>
        this.#route(proxied, body, known, { user, queryProperties: null }, null),
      );
    }
  }

  /**
   * Lets the routers decide.
   * @param told what they are told of the analysis; null where the statement was not analysed
   */
  #route(
    proxied: ProxiedRequest,
    body: BodyStart,
    table: RoutingTable,
    analysis: Analysis,
    told: Analysis | null,
  ): void {
    const request = new ProxiedRuleRequest(proxied, told, body, this.#context.headers);
    this.#steps.settle(proxied, this.#decisions.routers.decide(request, table, proxied.trace), (routed) => {
      if (routed.refusal !== null) {
        const { refusal, rule } = routed;
        this.#context.refuse(proxied, refusal);
        if (refusal.reason === 'denied') this.#logDenied(proxied, analysis, rule);
        return;
      }
      const { decision } = routed;
      this.#submit(proxied, { body, user: analysis.user, decision, about: null, transaction: null }, analysis);
    });
  }

  #submit(proxied: ProxiedRequest, submission: Submission, { queryProperties }: Analysis): void {
    const transaction = transactionIdOf(firstHeader(proxied.request.rawHeaders, this.#transactionHeader));
    const killed = queryProperties?.queryId ?? null;
    if (transaction !== null) this.#inTransaction(proxied, submission, transaction);
    else if (killed !== null) this.#kill(proxied, submission, killed);
    else this.#admit(proxied, submission);
  }

  /** Sends a submission on when it is admitted. */
  #admit(proxied: ProxiedRequest, submission: Submission): void {
    const { user, decision } = submission;
    const exchange = new SubmissionExchange(this.#context, proxied, submission);
    const admitted = this.#decisions.admission.admit({ decision, user, headers: proxied.request.rawHeaders });
    if (admitted.answer === 'now') exchange.start();
    else if (admitted.answer === 'refuse') exchange.refuse(admitted.refusal);
    else {
      proxied.trace?.step('admission');
      this.#steps.settle(proxied, this.#held.hold(proxied.response, admitted), (refusal) => {
        if (refusal === null) exchange.start();
        else exchange.refuse(refusal);
      });
    }
  }

  /**
   * A statement of a transaction goes to the cluster that began it. One that nobody knows goes the usual way: the engine
   * that gets it says so in its own words.
   */
  #inTransaction(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const { transactions, table } = this.#context;
    this.#steps.settle(proxied, transactions.ownerNow(id) ?? transactions.find(id), (owner) => {
      if (owner === 'undecided') {
        const message = `Which cluster began transaction ${id} is not known at the moment; ask again in a second.`;
        this.#context.refuse(proxied, { reason: 'undecided_transaction', message, queryId: null });
        return;
      }
      const cluster = owner === 'unknown' ? null : ownerCluster(table.current, owner);
      const transaction = { id, cluster };
      new SubmissionExchange(this.#context, proxied, { ...submission, transaction }).start();
    });
  }

  /** A call of kill_query goes to the cluster of the query it names. */
  #kill(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const { stickiness } = this.#context;
    const found =
      stickiness.ownerNow(id) ?? stickiness.find(id).then((row) => (typeof row === 'string' ? null : row.owner));
    // Where nobody can tell, the cluster of a new query may well be the one.
    this.#steps.settle(proxied, found, (owner) => {
      const about = owner === null ? null : { queryId: id, cluster: ownerCluster(this.#context.table.current, owner) };
      new SubmissionExchange(this.#context, proxied, { ...submission, about }).start();
    });
  }

  #logDenied(proxied: ProxiedRequest, analysis: Analysis, rule: string | null): void {
    const { logger, names, clock } = this.#context;
    logger.info(
      {
        rule: rule ?? undefined,
        reason: 'denied',
        user: analysis.user.user,
        source: firstHeader(proxied.request.rawHeaders, names.headerKey('Source')),
        status: 'refused',
        durationMs: Math.round(clock.monotonic() - proxied.startedAt),
      },
      'query',
    );
  }
}
