import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { ForwardedCheck } from '../headers/forwardedCheck.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { QueryOutcomes } from '../outcomes/queryOutcomes.ts';
import type { OwnershipReport } from '../ownership/ownershipReport.ts';
import type { OwnershipConflict } from '../ownership/queryOwner.ts';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { Transactions } from '../ownership/transactions.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { AnswerWatch } from './answerWatch.ts';
import { foreignQueryId } from './exchangeRefusals.ts';
import type { FirstAnswer } from './firstAnswer.ts';
import type { QueryRecorder, SubmissionRoute } from './queryRecorder.ts';
import type { Submission } from './submission.ts';

/** A query that a cluster has accepted: its response to the submission names the query's id. */
export interface SubmittedQuery {
  readonly queryId: string;
  readonly cluster: ClusterEntry;
  readonly proxied: ProxiedRequest;
  readonly submission: Submission;
  readonly route: SubmissionRoute;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The answer: whether the client will ask for more. */
  readonly answer: Pick<FirstAnswer, 'whenKnown'>;
}

export interface UnreleasedAnswer {
  /** Lets the cluster wait until it is released. */
  pauseAnswer(): void;
  release(): void;
  /** Drops it; the client is rejected instead. */
  replaceBy(refusal: Refusal): void;
}

export interface SubmittedQueriesDependencies {
  readonly stickiness: Pick<Stickiness, 'learn'>;
  readonly transactions: Pick<Transactions, 'noteAnswer' | 'noteStatement'>;
  readonly ownership: OwnershipReport;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly outcomes: Pick<QueryOutcomes, 'begin' | 'page' | 'end' | 'cancel' | 'awaitsRows'>;
  readonly forwardedCheck: ForwardedCheck;
  readonly clients: Pick<RequestHeaders, 'clientOf'>;
  readonly recorder: Pick<QueryRecorder, 'record' | 'whenWritten' | 'factsOf'>;
  readonly settings: Pick<DataPlaneSettings, 'forwardedHeadersEnabled' | 'historyBeforeAnswer'>;
}

/**
 * Takes note of each query before its client knows of it, so that every replica can serve its follow-ups: the owner, the
 * transaction, the history (docs/protocol.md#learning).
 */
export class SubmittedQueries {
  readonly #dependencies: SubmittedQueriesDependencies;

  constructor(dependencies: SubmittedQueriesDependencies) {
    this.#dependencies = dependencies;
  }

  /** Watches the first response of a query, which is the last one where there is nothing to wait for. */
  watch(queryId: string, cluster: ClusterEntry): AnswerWatch {
    return new AnswerWatch(this.#dependencies, queryId, cluster.name, 'POST');
  }

  /** Makes the cluster the owner of the query, and releases the response once all is noted, or replaces it. */
  take(query: SubmittedQuery, answer: UnreleasedAnswer): void {
    const { name, proxyTo, uid } = query.cluster;
    const claim = this.#dependencies.stickiness.learn(query.queryId, { cluster: name, proxyTo, uid });
    if (claim === null) this.#noteOwned(query, answer);
    else {
      answer.pauseAnswer();
      void claim.then((conflict) => {
        if (conflict === null) this.#noteOwned(query, answer);
        else this.#refuseForeign(query, conflict, answer);
      });
    }
  }

  /** The cluster owns the query: the response is the client's. */
  #noteOwned(query: SubmittedQuery, answer: UnreleasedAnswer): void {
    this.#checkForwarded(query);
    const { queryId, cluster, proxied, submission, route } = query;
    this.#dependencies.outcomes.begin(queryId, this.#dependencies.recorder.factsOf(proxied, submission, route));
    query.answer.whenKnown((goesOn) => {
      if (!goesOn) return;
      this.#dependencies.runningQueries.noteActivity(queryId, cluster.name, true);
      submission.slots?.bind(queryId, cluster.name);
    });
    const storing = this.#noteTransaction(query);
    if (storing === null) this.#recordAndRelease(query, answer);
    else {
      answer.pauseAnswer();
      void storing.then(() => this.#recordAndRelease(query, answer));
    }
  }

  #recordAndRelease(query: SubmittedQuery, answer: UnreleasedAnswer): void {
    const { recorder, settings } = this.#dependencies;
    const { historyBeforeAnswer } = settings;
    // Most clients do not wait for the history.
    if (!historyBeforeAnswer) answer.release();
    recorder.record(query.queryId, query.cluster, query.proxied, query.submission, query.route);
    if (!historyBeforeAnswer) return;
    answer.pauseAnswer();
    void recorder.whenWritten(query.queryId).then(() => answer.release());
  }

  /** Looks whether the cluster's URLs point to the gateway. */
  #checkForwarded({ cluster, proxied, text }: SubmittedQuery): void {
    const { settings, forwardedCheck, clients } = this.#dependencies;
    if (!settings.forwardedHeadersEnabled || !forwardedCheck.due(cluster.proxyTo)) return;
    forwardedCheck.noteAnswer(cluster.name, cluster.proxyTo, text, clients.clientOf(proxied.request));
  }

  /** Notes the transaction that the query belongs to or begins; null when nothing has to be stored first. */
  #noteTransaction({ queryId, cluster, submission, headers }: SubmittedQuery): Promise<void> | null {
    const { transactions } = this.#dependencies;
    if (submission.transaction !== null) transactions.noteStatement(queryId, submission.transaction.id);
    return transactions.noteAnswer(queryId, headers, { cluster: cluster.name, proxyTo: cluster.proxyTo });
  }

  /** Another cluster owns the query id: nothing of the response reaches the client, who would ask that cluster next. */
  #refuseForeign({ queryId, cluster }: SubmittedQuery, conflict: OwnershipConflict, answer: UnreleasedAnswer): void {
    this.#dependencies.ownership.conflict(cluster.name, queryId, conflict);
    answer.replaceBy(foreignQueryId(queryId, cluster.name, conflict.kind));
  }
}
