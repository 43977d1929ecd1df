import { firstHeader } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { StoredChoice } from '../../routing/candidates.ts';
import { type ChoiceStep, stepsText } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { UndecidedRouting } from '../../routing/groupRouter.ts';
import { type Refusal, refusalError } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { DecisionTimes, FailedAttempt } from '../../routing/storedDecision.ts';
import { noTrace, type ReadCondition } from '../../rules/decision.ts';
import { queryGroups } from '../analysis/membership.ts';
import type { BodyStart } from '../bodies/body.ts';
import type { SharedParts } from '../dataPlaneComposition.ts';
import type { QueryFacts, RefusedQuery } from '../outcomes/queryOutcomes.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { decisionText, type KeptDecision, type WayToCluster } from './decisionText.ts';
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
  /** Findings of rules and rules service; null if none was called, as the user mapping rejected it. */
  readonly undecided: UndecidedRouting | null;
  /** The condition of that rule with what it read; empty for none. Asked only where it is kept. */
  readonly conditions: () => readonly ReadCondition[];
}

/** Longest wait of a response for the history (`queryHistory.writeBeforeAnswer`). */
const HISTORY_WAIT_MS = 2000;

/** Writes queries into the history, and a log line for each. */
export class QueryRecorder {
  readonly #parts: SharedParts;
  readonly #facts: RequestFacts;
  readonly #sourceKey: string;

  constructor(parts: SharedParts) {
    this.#parts = parts;
    this.#facts = new RequestFacts(parts.names);
    this.#sourceKey = parts.names.headerKey('Source');
  }

  /** Adds a query to the history, where that is wanted. */
  record(
    queryId: string,
    cluster: ClusterEntry,
    proxied: ProxiedRequest,
    submission: Submission,
    route: SubmissionRoute,
  ): void {
    const { body, user, queuedAs } = submission;
    const { history, clock, settings } = this.#parts;
    if (!settings.historyEnabled) return;
    history.add({
      queryId,
      queryText: body.text,
      user: user.user,
      source: this.#sourceOf(proxied) ?? null,
      backendUrl: cluster.proxyTo,
      created: clock.now(),
      routingGroup: route.decision.group,
      externalUrl: cluster.externalUrl,
      cluster: cluster.name,
      ...queryGroups(user),
      decision: decisionText(route.decision, {
        ...this.#way(proxied, submission, true, route, waitNote(submission)),
        ...(queuedAs === undefined ? {} : { queuedAs }),
      }),
    });
  }

  /** Resolves once a recorded query is in the history, or waits on disk for its database; after 2 s in any case. Never rejects. */
  whenWritten(queryId: string): Promise<void> {
    return this.#parts.history.whenWritten(queryId, HISTORY_WAIT_MS);
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
    const { reason, message } = refusal;
    const error = refusalError(reason);
    if (error === null || submission.queuedAs !== undefined) return refusal;
    const end = { state: 'REFUSED', error: { ...error, message } } as const;
    return { ...refusal, queryId: this.#recordUnaccepted(proxied, submission, route, end, { refused: reason }) };
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
    return this.#recordUnaccepted(proxied, submission, route, { state: 'FAILED', error }, {});
  }

  #recordUnaccepted(
    proxied: ProxiedRequest,
    submission: Submission,
    route: SubmissionRoute,
    end: Pick<RefusedQuery, 'state' | 'error'>,
    refused: { readonly refused?: Refusal['reason'] },
  ): string {
    const way = { ...this.#way(proxied, submission, false, route, waitNote(submission)), ...refused };
    const facts = this.factsOf(proxied, submission, route);
    return this.#refuse(submission.queuedAs, submission.body, facts, route.decision, way, end);
  }

  /**
   * Keeps and logs a submission that was rejected before its group was decided: by a rule that denies it, or as there was
   * no decision.
   * @returns the refusal, with the id under which it is kept
   */
  recordUndecided(
    refusal: Refusal,
    proxied: ProxiedRequest,
    { user, body, rule, undecided, conditions }: UndecidedSubmission,
  ): Refusal {
    const { reason, message } = refusal;
    const isDenied = reason === 'denied';
    const source = this.#sourceOf(proxied);
    if (isDenied) {
      this.#parts.logger.info(
        {
          rule: rule ?? undefined,
          reason,
          user: user.user,
          source,
          status: 'refused',
          durationMs: this.#durationOf(proxied),
        },
        'query',
      );
    }
    const error = refusalError(reason);
    if (error === null) return refusal;
    const nowhere = { cluster: null, fallback: false, steps: null, attempts: null };
    const decision: KeptDecision = {
      ...{ group: '', cluster: null, rule, decidedBy: 'userMapping', trace: noTrace },
      ...undecided,
    };
    const way = {
      ...this.#way(proxied, { body, user }, false, nowhere, null),
      refused: reason,
      conditions: this.#parts.settings.historyEnabled ? conditions() : [],
    };
    const facts = {
      ...{ cluster: null, routingGroup: null, user: user.user, source: source ?? null, rule },
      gatewayQueuedMillis: null,
      ...queryGroups(user),
    };
    const end = { state: isDenied ? 'DENIED' : 'REFUSED', error: { ...error, message } } as const;
    return { ...refusal, queryId: this.#refuse(undefined, body, facts, decision, way, end) };
  }

  /** @returns the id under which it is kept */
  #refuse(
    queuedAs: string | undefined,
    { text: queryText }: BodyStart,
    facts: QueryFacts,
    decision: KeptDecision,
    way: WayToCluster,
    end: Pick<RefusedQuery, 'state' | 'error'>,
  ): string {
    const { refusalIds, outcomes } = this.#parts;
    const queryId = queuedAs ?? refusalIds.next();
    outcomes.refuse({ queryId, facts, queryText, decision: decisionText(decision, way), ...end });
    return queryId;
  }

  logEnd(
    proxied: ProxiedRequest,
    submission: Submission,
    { decision, cluster, fallback, steps, attempts }: SubmissionRoute,
    { queryId, refused, queued, status }: SubmissionEnd,
  ): void {
    const { logger, settings } = this.#parts;
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

  /** @param isSubmitted whether its cluster has responded now */
  #way(
    proxied: ProxiedRequest,
    { body, user }: Pick<Submission, 'body' | 'user'>,
    isSubmitted: boolean,
    {
      cluster,
      fallback,
      steps,
      attempts,
      choice,
    }: Omit<SubmissionRoute, 'decision' | 'choice'> & Partial<SubmissionRoute>,
    admission: string | null,
  ): WayToCluster {
    const { request, target } = proxied;
    const { path, query } = target;
    return {
      ...{ cluster: cluster?.name ?? '', fallback, steps, attempts, admission },
      ...(choice === undefined ? {} : { choice }),
      times: this.#timesOf(proxied, isSubmitted),
      request: this.#facts.of({ headers: request.rawHeaders, path, query, body }, this.#parts.table.current.rules),
      membership: user.membership,
      mapping: user.mapping,
    };
  }

  #sourceOf({ request }: ProxiedRequest): string | undefined {
    return firstHeader(request.rawHeaders, this.#sourceKey);
  }

  #timesOf(proxied: ProxiedRequest, isSubmitted: boolean): DecisionTimes {
    const { startedAt, analysedAt, decidedAt } = proxied;
    const now = this.#durationOf(proxied);
    return {
      receivedAt: this.#parts.clock.now() - now,
      ...(analysedAt === undefined ? {} : { analysed: Math.round(analysedAt - startedAt) }),
      ...(decidedAt === undefined ? {} : { decided: Math.round(decidedAt - startedAt) }),
      ...(isSubmitted ? { submitted: now } : {}),
    };
  }

  #durationOf({ startedAt }: ProxiedRequest): number {
    return Math.round(this.#parts.clock.monotonic() - startedAt);
  }
}
