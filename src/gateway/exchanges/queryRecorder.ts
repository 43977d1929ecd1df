import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { StoredChoice } from '../../routing/candidates.ts';
import { type ChoiceStep, stepsText } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { UndecidedRouting } from '../../routing/groupRouter.ts';
import { type Refusal, refusalError } from '../../routing/refusal.ts';
import type { ClusterEntry, RoutingTable } from '../../routing/routingTable.ts';
import type { DecisionTimes, FailedAttempt, StoredRequest } from '../../routing/storedDecision.ts';
import { noTrace, type ReadCondition } from '../../rules/decision.ts';
import type { HistoryWriter } from '../../store/store.ts';
import { queryGroups } from '../analysis/membership.ts';
import type { BodyStart } from '../bodies/body.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { QueryFacts, QueryOutcomes, RefusedQuery } from '../outcomes/queryOutcomes.ts';
import type { RefusalIds } from '../outcomes/refusalIds.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { decisionText, type KeptDecision } from './decisionText.ts';
import { RequestFacts } from './requestFacts.ts';
import { type Submission, waitNote } from './submission.ts';

export interface SubmissionRoute {
  readonly decision: GroupDecision;
  /** Null if no cluster was picked. */
  readonly cluster: ClusterEntry | null;
  /** True if the cluster serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Clusters tried before; null for none. */
  readonly attempts: readonly FailedAttempt[] | null;
  /** The clusters that were there; null if none was chosen among several. */
  readonly choice: StoredChoice | null;
}

export interface SubmissionEnd {
  /** Null if the cluster responded with none, or was rejected. */
  readonly queryId: string | null;
  /** Reason of the gateway's rejection; null if a cluster responded, or failed to. */
  readonly refused: Refusal['reason'] | null;
  /** True if it waits in the queue: its id is one of the gateway's own. */
  readonly queued: boolean;
  /** Of the client's response; 0 when the client went away. */
  readonly status: number;
}

/** A submission that was rejected before its routing group was decided. */
export interface UndecidedSubmission {
  readonly user: RequestUser;
  readonly body: BodyStart;
  /** Rule that rejected it; null for none. */
  readonly rule: string | null;
  /** Findings of its routers; null if none was called, as the user mapping rejected it. */
  readonly undecided: UndecidedRouting | null;
  /** The condition of that rule with what it read; empty for none. Asked only where it is kept. */
  readonly conditions: () => readonly ReadCondition[];
}

export interface QueryRecorderDependencies {
  readonly names: ProductNames;
  readonly history: Pick<HistoryWriter, 'add' | 'whenWritten'>;
  readonly outcomes: Pick<QueryOutcomes, 'refuse'>;
  readonly refusalIds: RefusalIds;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly settings: DataPlaneSettings;
  readonly table: { readonly current: Pick<RoutingTable, 'rules'> };
}

/** Longest wait of a response for the history (`queryHistory.writeBeforeAnswer`). */
const HISTORY_WAIT_MS = 2000;

/** Writes queries into the history, and a log line for each. */
export class QueryRecorder {
  readonly #dependencies: QueryRecorderDependencies;

  readonly #facts: RequestFacts;

  constructor(dependencies: QueryRecorderDependencies) {
    this.#dependencies = dependencies;
    this.#facts = new RequestFacts(dependencies.names);
  }

  /** Adds a query to the history, where that is wanted. */
  record(
    queryId: string,
    cluster: ClusterEntry,
    proxied: ProxiedRequest,
    submission: Submission,
    { decision, fallback, steps, attempts, choice }: SubmissionRoute,
  ): void {
    const { body, user, queuedAs } = submission;
    const { history, clock, settings } = this.#dependencies;
    if (!settings.historyEnabled) return;
    history.add({
      queryId,
      queryText: body.text,
      user: user.user,
      source: this.#sourceOf(proxied) ?? null,
      backendUrl: cluster.proxyTo,
      created: clock.now(),
      routingGroup: decision.group,
      externalUrl: cluster.externalUrl,
      cluster: cluster.name,
      ...queryGroups(user),
      decision: decisionText(decision, {
        cluster: cluster.name,
        fallback,
        steps,
        attempts,
        choice,
        admission: waitNote(submission),
        ...(queuedAs === undefined ? {} : { queuedAs }),
        times: this.#timesOf(proxied, true),
        request: this.#factsOf(proxied, submission),
        membership: user.membership,
        mapping: user.mapping,
      }),
    });
  }

  /** Resolves once a recorded query is in the history, or waits on disk for its database; after 2 s in any case. Never rejects. */
  whenWritten(queryId: string): Promise<void> {
    return this.#dependencies.history.whenWritten(queryId, HISTORY_WAIT_MS);
  }

  factsOf(proxied: ProxiedRequest, submission: Submission, { decision, cluster }: SubmissionRoute): QueryFacts {
    const { user, waitedMs, slots } = submission;
    return {
      cluster: cluster?.name ?? null,
      routingGroup: decision.group,
      user: user.user,
      source: this.#sourceOf(proxied) ?? null,
      rule: decision.rule,
      gatewayQueuedMillis: waitedMs ?? (waitNote({ slots }) === null ? null : this.#durationOf(proxied)),
      ...queryGroups(user),
    };
  }

  /**
   * Keeps a submission that the gateway rejected, with its statement and the reason. One that clients send again by
   * themselves is not kept, nor one that waits under an id of its own: it may continue waiting.
   * @returns the refusal, with the id under which it is kept
   */
  recordRefused(refusal: Refusal, proxied: ProxiedRequest, submission: Submission, route: SubmissionRoute): Refusal {
    const error = refusalError(refusal.reason);
    if (error === null || submission.queuedAs !== undefined) return refusal;
    const end = { state: 'REFUSED', refused: refusal.reason, error: { ...error, message: refusal.message } } as const;
    return { ...refusal, queryId: this.#recordUnaccepted(proxied, submission, route, end) };
  }

  /**
   * Keeps a submission that a cluster responded with an HTTP error. 401 to a request without credentials is the start
   * of a login.
   * @returns the id under which it is kept; null if it is not kept
   */
  recordFailed(status: number, proxied: ProxiedRequest, submission: Submission, route: SubmissionRoute): string | null {
    const { cluster } = route;
    if (cluster === null) return null;
    if (status === 401 && firstHeader(proxied.request.rawHeaders, 'authorization') === undefined) return null;
    const message = `Cluster "${cluster.name}" answered with HTTP status ${status}.`;
    const error = { name: `HTTP_${status}`, type: 'EXTERNAL', code: status, message };
    return this.#recordUnaccepted(proxied, submission, route, { state: 'FAILED', error });
  }

  #recordUnaccepted(
    proxied: ProxiedRequest,
    submission: Submission,
    route: SubmissionRoute,
    { state, error, refused }: Pick<RefusedQuery, 'state' | 'error'> & { readonly refused?: Refusal['reason'] },
  ): string {
    const { refusalIds, outcomes } = this.#dependencies;
    const queryId = submission.queuedAs ?? refusalIds.next();
    const { decision, cluster, fallback, steps, attempts, choice } = route;
    const way = {
      ...{ cluster: cluster?.name ?? '', fallback, steps, attempts, choice, admission: waitNote(submission) },
      ...(refused === undefined ? {} : { refused }),
      times: this.#timesOf(proxied, false),
      request: this.#factsOf(proxied, submission),
      membership: submission.user.membership,
      mapping: submission.user.mapping,
    };
    outcomes.refuse({
      queryId,
      state,
      facts: this.factsOf(proxied, submission, route),
      queryText: submission.body.text,
      decision: decisionText(decision, way),
      error,
    });
    return queryId;
  }

  /**
   * Keeps and logs a submission that the routers rejected: by a rule that denies it, or as they could not decide.
   * @returns the refusal, with the id under which it is kept
   */
  recordUndecided(
    refusal: Refusal,
    proxied: ProxiedRequest,
    { user, body, rule, undecided, conditions }: UndecidedSubmission,
  ): Refusal {
    const isDenied = refusal.reason === 'denied';
    if (isDenied) this.#logDenied(proxied, user, rule);
    const error = refusalError(refusal.reason);
    if (error === null) return refusal;
    const { refusalIds, outcomes, settings } = this.#dependencies;
    const queryId = refusalIds.next();
    const source = this.#sourceOf(proxied) ?? null;
    const decision: KeptDecision = {
      ...{ group: '', cluster: null, rule, decidedBy: 'userMapping', trace: noTrace },
      ...undecided,
    };
    const way = {
      ...{ cluster: '', fallback: false, steps: null, attempts: null },
      refused: refusal.reason,
      times: this.#timesOf(proxied, false),
      conditions: settings.historyEnabled ? conditions() : [],
      request: this.#factsOf(proxied, { body }),
      membership: user.membership,
      mapping: user.mapping,
    };
    outcomes.refuse({
      queryId,
      state: isDenied ? 'DENIED' : 'REFUSED',
      facts: {
        ...{ cluster: null, routingGroup: null, user: user.user, source, rule, gatewayQueuedMillis: null },
        ...queryGroups(user),
      },
      queryText: body.text,
      decision: decisionText(decision, way),
      error: { ...error, message: refusal.message },
    });
    return { ...refusal, queryId };
  }

  logEnd(
    proxied: ProxiedRequest,
    submission: Submission,
    { decision, cluster, fallback, steps, attempts }: SubmissionRoute,
    { queryId, refused, queued, status }: SubmissionEnd,
  ): void {
    const { logger, settings } = this.#dependencies;
    const { body, user, queuedAs } = submission;
    logger.info(
      {
        queryId,
        group: decision.group,
        decidedBy: decision.decidedBy,
        rule: decision.rule ?? undefined,
        cluster: cluster?.name,
        fallback: fallback || undefined,
        steps: steps === null ? undefined : stepsText(steps),
        attempts: attempts ?? undefined,
        admission: waitNote(submission) ?? undefined,
        refused: refused ?? undefined,
        queued: queued || undefined,
        queuedAs,
        user: user.user,
        mappedFrom: user.mapping?.from,
        source: this.#sourceOf(proxied),
        status: status === 0 ? 'client_gone' : status,
        durationMs: this.#durationOf(proxied),
        queryText: settings.logQueryText ? body.text : undefined,
      },
      'query',
    );
  }

  #logDenied(proxied: ProxiedRequest, user: RequestUser, rule: string | null): void {
    this.#dependencies.logger.info(
      {
        rule: rule ?? undefined,
        reason: 'denied',
        user: user.user,
        source: this.#sourceOf(proxied),
        status: 'refused',
        durationMs: this.#durationOf(proxied),
      },
      'query',
    );
  }

  #factsOf({ request, target }: ProxiedRequest, { body }: Pick<Submission, 'body'>): StoredRequest {
    const { path, query } = target;
    return this.#facts.of({ headers: request.rawHeaders, path, query, body }, this.#dependencies.table.current.rules);
  }

  #sourceOf({ request }: ProxiedRequest): string | undefined {
    return firstHeader(request.rawHeaders, this.#dependencies.names.headerKey('Source'));
  }

  /** @param isSubmitted whether its cluster has responded now */
  #timesOf(proxied: ProxiedRequest, isSubmitted: boolean): DecisionTimes {
    const { startedAt, analysedAt, decidedAt } = proxied;
    const { clock } = this.#dependencies;
    const now = this.#durationOf(proxied);
    return {
      receivedAt: clock.now() - now,
      ...(analysedAt === undefined ? {} : { analysed: Math.round(analysedAt - startedAt) }),
      ...(decidedAt === undefined ? {} : { decided: Math.round(decidedAt - startedAt) }),
      ...(isSubmitted ? { submitted: now } : {}),
    };
  }

  #durationOf({ startedAt }: ProxiedRequest): number {
    return Math.round(this.#dependencies.clock.monotonic() - startedAt);
  }
}
