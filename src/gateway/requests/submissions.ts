import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RouterChain } from '../../routing/routers/routerChain.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { transactionIdOf } from '../../routing/transactionId.ts';
import type { Admission } from '../admission/admission.ts';
import { HeldSubmissions } from '../admission/heldSubmissions.ts';
import { mayKillQuery } from '../analysis/killQuery.ts';
import type { Analysis, RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import { bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { BodyFault, RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { SubmissionDependencies } from '../exchanges/exchangeDependencies.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { QueryRecorder } from '../exchanges/queryRecorder.ts';
import type { Submission } from '../exchanges/submission.ts';
import { SubmissionExchange } from '../exchanges/submissionExchange.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import { ownerCluster } from '../ownership/ownerCluster.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { Transactions } from '../ownership/transactions.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/** Least size up to which submissions are buffered (docs/protocol.md#safe-retry). */
const MIN_BUFFERED_BODY = 1_048_576;
/** Memory for each byte of a submission: pieces as they come, joined, as text, and what of these is not collected yet. */
const BYTES_PER_BYTE = 4;
/** The same where the external rules service gets the text: as JSON, encoded, and on its way. */
const BYTES_PER_BYTE_SENT = 6;

/** What submissions are taken through their steps with. */
export interface SubmissionsDependencies {
  readonly steps: RequestSteps;
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly settings: () => Pick<DataPlaneSettings, 'maxAnalyzedBody' | 'maxBodySize'>;
  readonly bodies: RequestBodies;
  readonly analyzer: RequestAnalyzer;
  readonly clients: RequestHeaders;
  readonly routers: RouterChain;
  /** Whether a router sends the statement's text on. */
  readonly sendsText: boolean;
  readonly transactions: Pick<Transactions, 'ownerNow' | 'find'>;
  readonly stickiness: Pick<Stickiness, 'ownerNow' | 'find'>;
  readonly admission: Admission;
  readonly answers: GatewayAnswers;
  readonly metrics: Pick<DataPlaneMetrics, 'submission'>;
  readonly recorder: QueryRecorder;
  readonly exchange: SubmissionDependencies;
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
  readonly #preparedHeader: string;
  readonly #transactionHeader: string;
  #stopping = false;

  constructor(dependencies: SubmissionsDependencies) {
    this.#dependencies = dependencies;
    this.#steps = dependencies.steps;
    this.#preparedHeader = dependencies.names.headerKey('Prepared-Statement');
    this.#transactionHeader = dependencies.names.headerKey('Transaction-Id');
  }

  /** From now on all are refused, also those that wait to be admitted: the gateway is stopping. */
  refuseAll(): void {
    this.#stopping = true;
    this.#waiting.refuseAll(stopping);
  }

  /** Takes a new query: reads its body first. */
  submit(proxied: ProxiedRequest): void {
    const { answers, metrics, bodies, settings, sendsText } = this.#dependencies;
    if (this.#stopping) {
      answers.refuse(proxied, stopping);
      return;
    }
    metrics.submission();
    const reading = {
      limit: Math.max(settings().maxAnalyzedBody, MIN_BUFFERED_BODY),
      bytesPerByte: sendsText ? BYTES_PER_BYTE_SENT : BYTES_PER_BYTE,
    };
    const onBody = (body: BodyStart) => this.#steps.guarded(proxied, () => this.#analyze(proxied, body));
    const failed = (fault: BodyFault) => answers.refuse(proxied, bodyRefusal(fault, bodies, settings().maxBodySize));
    bodies.read(proxied.request, reading, onBody, failed);
  }

  /** Finds out what the decision needs to know; goes on at once where nothing has to be waited for. */
  #analyze(proxied: ProxiedRequest, body: BodyStart): void {
    const { analyzer, table } = this.#dependencies;
    const current = table.current;
    proxied.trace?.step('analysis');
    const whole = body.complete ? body : null;
    const needsAll =
      this.#dependencies.routers.needsAnalysis(current) ||
      (whole !== null && mayKillQuery(body.text, proxied.request, this.#preparedHeader));
    if (needsAll) {
      this.#steps.settle(proxied, analyzer.analyze(proxied.request, whole, true), (analysis) =>
        this.#route(proxied, body, current, analysis, analysis),
      );
    } else {
      this.#steps.settle(proxied, analyzer.user(proxied.request), (user) =>
        this.#route(proxied, body, current, { user, queryProperties: null }, null),
      );
    }
  }

  /**
   * Lets the routers decide.
   * @param forRouters what they get of the analysis; null where the statement was not analysed
   */
  #route(
    proxied: ProxiedRequest,
    body: BodyStart,
    table: RoutingTable,
    { user, queryProperties }: Analysis,
    forRouters: Analysis | null,
  ): void {
    const { clients, routers, answers, recorder } = this.#dependencies;
    const request = new ProxiedRuleRequest(proxied, forRouters, body, clients);
    this.#steps.settle(proxied, routers.decide(request, table, proxied.trace), (routed) => {
      if (routed.refusal !== null) {
        const { refusal, rule } = routed;
        answers.refuse(proxied, refusal);
        if (refusal.reason === 'denied') recorder.logDenied(proxied, user, rule);
        return;
      }
      const submission = { body, user, decision: routed.decision, about: null, transaction: null };
      this.#bind(proxied, submission, queryProperties?.queryId ?? null);
    });
  }

  /**
   * Looks whether only one cluster can take it: that of its transaction, or of the query that it is about.
   * @param killed the query that a call of kill_query names; null for all other statements
   */
  #bind(proxied: ProxiedRequest, submission: Submission, killed: string | null): void {
    const transaction = transactionIdOf(firstHeader(proxied.request.rawHeaders, this.#transactionHeader));
    if (transaction !== null) this.#bindToTransaction(proxied, submission, transaction);
    else if (killed !== null) this.#bindToQuery(proxied, submission, killed);
    else this.#admit(proxied, submission);
  }

  /**
   * A statement of a transaction goes to the cluster that began it. One that nobody knows goes the usual way: the engine
   * that gets it says so in its own words.
   */
  #bindToTransaction(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const { transactions, table } = this.#dependencies;
    this.#steps.settle(proxied, transactions.ownerNow(id) ?? transactions.find(id), (owner) => {
      if (owner === 'undecided') {
        const message = `Which cluster began transaction ${id} is not known at the moment; ask again in a second.`;
        this.#dependencies.answers.refuse(proxied, { reason: 'undecided_transaction', message, queryId: null });
        return;
      }
      const cluster = owner === 'unknown' ? null : ownerCluster(table.current, owner);
      const transaction = { id, cluster };
      new SubmissionExchange(this.#dependencies.exchange, proxied, { ...submission, transaction }).start();
    });
  }

  /** A call of kill_query goes to the cluster of the query it names. */
  #bindToQuery(proxied: ProxiedRequest, submission: Submission, id: string): void {
    const { stickiness } = this.#dependencies;
    const ownerLookup =
      stickiness.ownerNow(id) ?? stickiness.find(id).then((row) => (typeof row === 'string' ? null : row.owner));
    // Where nobody knows it, the cluster of a new query may well be the one.
    this.#steps.settle(proxied, ownerLookup, (owner) => {
      const about =
        owner === null ? null : { queryId: id, cluster: ownerCluster(this.#dependencies.table.current, owner) };
      new SubmissionExchange(this.#dependencies.exchange, proxied, { ...submission, about }).start();
    });
  }

  /** Sends a submission on when it is admitted. */
  #admit(proxied: ProxiedRequest, submission: Submission): void {
    const { user, decision } = submission;
    const exchange = new SubmissionExchange(this.#dependencies.exchange, proxied, submission);
    const admitted = this.#dependencies.admission.admit({ decision, user, headers: proxied.request.rawHeaders });
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
}
