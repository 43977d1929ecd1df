import type { Membership } from '../../model/membership.ts';
import type { ProductNames } from '../../model/names.ts';
import type { NameMapping, RequestUser } from '../../model/requestUser.ts';
import { estimateIn, type SizeEstimate } from '../../model/sizeEstimates.ts';
import type { ExternalResponse, GroupDecision, UndecidedRouting } from '../../routing/groupRouter.ts';
import { type Refusal, type RefusalReason, refusalError } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { STATEMENT_PATH } from '../../routing/statementProtocol.ts';
import type {
  DecisionTimes,
  FailedAttempt,
  StoredChoice,
  StoredDecision,
  StoredExternalResponse,
  StoredRequest,
  StoredUserGroups,
} from '../../routing/storedDecision.ts';
import { type ChoiceStep, stepsText } from '../../routing/storedDecision.ts';
import { headerName } from '../../rules/decide/conditionIndex.ts';
import { readValues } from '../../rules/decide/readValues.ts';
import {
  noTrace,
  type ReadCondition,
  type ReadValue,
  type RuleCondition,
  type RuleRequest,
  type RuleSet,
} from '../../rules/decision.ts';
import type { StatementDigests } from '../../sql/statementDigests.ts';
import { MAX_QUERY_GROUPS } from '../../store/queryGroups.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import type { SharedParts } from '../dataPlane.ts';
import type { QueryFacts, RejectedQuery } from '../outcomes/queryOutcomes.ts';
import { RecordedStatements } from '../outcomes/recordedStatement.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Longest value that is kept, characters. */
const MAX_VALUE_LENGTH = 256;
/** Most headers that rules read of which values are kept, in addition to those of the protocol. */
const MAX_OF_RULES = 16;

/** Headers of the protocol that rules read more than others. User, source and text have columns of their own. */
const OF_PROTOCOL = ['User', 'Catalog', 'Schema', 'Client-Tags', 'Client-Info', 'Routing-Group'] as const;

/** Names in lower case of the headers of which a value is kept wherever a request has one. */
export function recordedHeaders(names: ProductNames): readonly string[] {
  let keys = keysByNames.get(names);
  if (keys === undefined) {
    keys = OF_PROTOCOL.map((name) => names.headerKey(name));
    keysByNames.set(names, keys);
  }
  return keys;
}

const keysByNames = new WeakMap<ProductNames, readonly string[]>();

/** Names of headers with values that are, or may be, secrets: they are never stored. */
const SECRET =
  /auth|cookie|credential|passw|secret|token|signature|assertion|api-?key|private|jwt|session-?id|ssl|client-cert|prepared-statement/;

/** True if a header may hold a secret. @param name in lower case */
function isSecretHeader(name: string): boolean {
  return SECRET.test(name);
}

/** Characters of a condition that are kept with a query. */
const MAX_CONDITION_LENGTH = 4_096;

/** Conditions by name of their rule, of each rule set that rejected something. */
const conditionsBySet = new WeakMap<RuleSet, ReadonlyMap<string, RuleCondition>>();

/**
 * The condition of a rule that rejected a request, with the values that it read, to be kept with the query. Values that
 * may be secret, and those that are kept of no request (docs/rules.md#impact), are left out.
 * @param rule null for none
 * @param rules those that the request was decided by; null for none
 */
export function conditionsOf(
  rule: string | null,
  rules: RuleSet | null,
  request: RuleRequest,
  names: ProductNames,
): readonly ReadCondition[] {
  const present = rule === null || rules === null ? undefined : conditionsIn(rules).get(rule);
  if (present === undefined) return [];
  const condition = present.condition.slice(0, MAX_CONDITION_LENGTH);
  const values = readValues(present.condition, request, { names, analyzeRequest: request.user !== null });
  return [{ ...present, condition, values: values.filter(isStorable) }];
}

function isStorable({ source }: ReadValue): boolean {
  if (source === null) return false;
  const header = headerName(source);
  return header === null || !isSecretHeader(header);
}

function conditionsIn(rules: RuleSet): ReadonlyMap<string, RuleCondition> {
  let byName = conditionsBySet.get(rules);
  if (byName === undefined) {
    byName = new Map(rules.conditions?.().map((each) => [each.rule, each]));
    conditionsBySet.set(rules, byName);
  }
  return byName;
}

/** Steps of a query to its cluster, in addition to the decision. */
export interface WayToCluster extends Pick<SubmissionRoute, 'fallback' | 'steps' | 'attempts'> {
  readonly cluster: string;
  /** The clusters that were there for it; left out or null if none was chosen among several. */
  readonly choice?: StoredChoice | null;
  /** Reason and duration of the wait; null without a wait. */
  readonly admission?: string | null;
  /** The gateway's own id under which it waited; left out if it did not. */
  readonly queuedAs?: string;
  /** Reason of the gateway's rejection, if any. */
  readonly refused?: RefusalReason;
  /** The condition of a rule that rejected it; left out if none did. */
  readonly conditions?: readonly ReadCondition[];
  readonly times?: DecisionTimes;
  readonly request?: StoredRequest;
  /** Expected size; left out if no rule or limit reads it. */
  readonly estimate?: SizeEstimate;
  /** Groups of its user; left out if no source of groups is configured. */
  readonly membership?: Membership | undefined;
  /** Result of the user mapping; absent if the user's name is not mapped. */
  readonly mapping?: NameMapping | undefined;
}

/** A decision, or what is known of a query that was rejected before there was one. */
export type StoredRoute =
  | GroupDecision
  | (Omit<GroupDecision, 'decidedBy' | 'onUnavailable'> & Pick<StoredDecision, 'decidedBy'>);

const MAX_STORED_GROUPS = 64;

/**
 * A decision as it is kept with the query: `StoredDecision` as JSON. What the rules did is put in as a text that decisions by
 * the same values share.
 */
export function decisionText(decision: StoredRoute, way: WayToCluster): string {
  const {
    cluster,
    fallback,
    steps,
    attempts,
    admission = null,
    queuedAs,
    request,
    membership,
    mapping,
    estimate,
  } = way;
  const { refused, conditions = [], times, choice = null } = way;
  const { stored } = decision.trace;
  const rest = JSON.stringify({
    group: decision.group,
    decidedBy: decision.decidedBy,
    ...(decision.rule === null ? {} : { rule: decision.rule }),
    ...(refused === undefined ? {} : { refused }),
    ...(conditions.length === 0 ? {} : { conditions }),
    ...(decision.external === undefined ? {} : { external: storedResponse(decision.external) }),
    ...(decision.cluster === null ? {} : { pinned: decision.cluster }),
    cluster,
    ...(choice === null || choice.strategy === null ? {} : { strategy: choice.strategy }),
    ...(fallback ? { fallback: true } : {}),
    ...(steps === null ? {} : { steps: steps.map(({ text }) => text) }),
    ...(attempts === null ? {} : { attempts }),
    ...(admission === null ? {} : { admission }),
    ...(queuedAs === undefined ? {} : { queuedAs }),
    ...(times === undefined ? {} : { times }),
    ...(mapping === undefined ? {} : { userMapping: mapping }),
    ...(membership === undefined ? {} : { userGroups: membership.sources.map(storedGroups) }),
    ...(request === undefined ? {} : { request }),
    ...(estimate === undefined ? {} : { estimate }),
  } satisfies StoredDecision);
  const candidates = choice === null ? '' : `,"candidates":${choice.candidates}`;
  const rules = stored === null ? '' : `,"rules":${stored}`;
  return `${rest.slice(0, -1)}${candidates}${rules}}`;
}

function storedGroups({ source, groups, note }: Membership['sources'][number]): StoredUserGroups {
  const first = groups.slice(0, MAX_STORED_GROUPS);
  const more = groups.length - first.length;
  return { source, groups: first, ...(more > 0 ? { more } : {}), ...(note === undefined ? {} : { note }) };
}

/** The stored part of the external rules service's response: values of headers may be secrets. */
function storedResponse(response: ExternalResponse): StoredExternalResponse {
  if (!('headers' in response)) return response;
  const { headers, ...rest } = response;
  const set = Object.keys(headers);
  return set.length === 0 ? rest : { ...rest, setHeaders: set };
}

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
  readonly #ofProtocol: readonly string[];
  readonly #preparedKey: string;
  readonly #sourceKey: string;
  readonly #statements: RecordedStatements;
  /** Headers that rules read by name, of each rule set. */
  readonly #ofRules = new WeakMap<RuleSet, readonly string[]>();

  constructor(parts: SharedParts) {
    this.#parts = parts;
    this.#ofProtocol = recordedHeaders(parts.names);
    this.#preparedKey = parts.names.headerKey('Prepared-Statement');
    this.#sourceKey = parts.names.headerKey('Source');
    this.#statements = new RecordedStatements(parts.names, (text, bytes) => parts.history.fitText(text, bytes));
  }

  /** Follows a query that a cluster accepted. */
  begin(queryId: string, proxied: ProxiedRequest, submission: Submission, route: SubmissionRoute): QueryFacts {
    const facts = this.factsOf(proxied, submission, route);
    this.#parts.outcomes.begin(queryId, facts);
    return facts;
  }

  /**
   * Adds a query to the history, where that is wanted.
   * @param facts result of `begin`
   */
  record(
    queryId: string,
    cluster: ClusterEntry,
    proxied: ProxiedRequest,
    submission: Submission,
    route: SubmissionRoute,
    facts: QueryFacts,
  ): void {
    const { body, queuedAs } = submission;
    const { history, clock, settings } = this.#parts;
    if (!settings.historyEnabled) return;
    history.add({
      ...facts,
      queryId,
      queryText: body.text,
      backendUrl: cluster.proxyTo,
      created: clock.now(),
      externalUrl: cluster.externalUrl,
      cluster: cluster.name,
      decision: decisionText(route.decision, {
        ...this.#way(proxied, submission, true, route),
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
      gatewayQueuedMillis:
        waitedMs === undefined && waitNote({ slots }) === null
          ? null
          : Math.round(waitedMs ?? this.#parts.clock.monotonic() - proxied.startedAt),
      ...(user.membership && queryGroups(user.membership)),
      ...this.#statementOf(proxied, submission.body),
    };
  }

  /** Digests of the statement: for a trace, the log line and the history, computed once. */
  digestsOf({ fields }: Pick<ProxiedRequest, 'fields'>, { body }: Pick<Submission, 'body'>): StatementDigests {
    return this.#statements.of(body, fields).digests;
  }

  /** The statement with its digests, which are computed when the history is written; empty without a history. */
  #statementOf({ fields }: ProxiedRequest, body: BodyStart): Pick<QueryFacts, 'statement'> {
    return this.#parts.settings.historyEnabled ? { statement: this.#statements.of(body, fields) } : {};
  }

  /**
   * Keeps a submission that the gateway rejected, with its statement and the reason. One that clients send again by
   * themselves is not kept, nor one that waits under an id of its own: it may continue waiting.
   * @returns the refusal, with the id under which it is kept
   */
  recordRejected(refusal: Refusal, proxied: ProxiedRequest, submission: Submission, route: SubmissionRoute): Refusal {
    const { reason, message } = refusal;
    const error = refusalError(reason);
    if (error === null || submission.queuedAs !== undefined) return refusal;
    const state = reason === 'quarantined' ? ('DENIED' as const) : ('REFUSED' as const);
    const end = { state, error: { ...error, message } };
    return { ...refusal, queryId: this.#recordUnaccepted(proxied, submission, route, end, reason) };
  }

  /**
   * Keeps a submission that a cluster responded with an HTTP error. 401 to a request without credentials is the start
   * of a login.
   * @returns the id under which it is kept; null if it is not kept
   */
  recordFailed(status: number, proxied: ProxiedRequest, submission: Submission, route: SubmissionRoute): string | null {
    const { cluster } = route;
    if (cluster === null) return null;
    if (status === 401 && !proxied.fields.has('authorization')) return null;
    const message = `Cluster "${cluster.name}" answered with HTTP status ${status}.`;
    const error = { name: `HTTP_${status}`, type: 'EXTERNAL', code: status, message };
    return this.#recordUnaccepted(proxied, submission, route, { state: 'FAILED', error }, null);
  }

  #recordUnaccepted(
    proxied: ProxiedRequest,
    submission: Submission,
    route: SubmissionRoute,
    end: Pick<RejectedQuery, 'state' | 'error'>,
    refused: Refusal['reason'] | null,
  ): string {
    const { refusalIds, outcomes } = this.#parts;
    const way = { ...this.#way(proxied, submission, false, route), ...(refused !== null && { refused }) };
    const queryId = submission.queuedAs ?? refusalIds.next();
    const facts = this.factsOf(proxied, submission, route);
    const decision = decisionText(route.decision, way);
    outcomes.reject({ queryId, facts, queryText: submission.body.text, decision, ...end });
    return queryId;
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
    const { refusalIds, outcomes, logger, settings } = this.#parts;
    const { reason, message } = refusal;
    const isDenied = reason === 'denied';
    const source = this.#sourceOf(proxied);
    if (isDenied) {
      const durationMs = Math.round(this.#parts.clock.monotonic() - proxied.startedAt);
      const queryDigest = this.digestsOf(proxied, { body }).shape;
      const facts = { rule: rule ?? undefined, reason, user: user.user, source, status: 'refused', durationMs };
      logger.info({ ...facts, queryDigest }, 'query');
    }
    const error = refusalError(reason);
    if (error === null) return refusal;
    const nowhere = { cluster: null, fallback: false, steps: null, attempts: null };
    const decision: StoredRoute = {
      ...{ group: '', cluster: null, rule, decidedBy: 'userMapping', trace: noTrace },
      ...undecided,
    };
    const queryId = refusalIds.next();
    outcomes.reject({
      queryId,
      facts: {
        ...{ cluster: null, routingGroup: null, user: user.user, source: source ?? null, rule },
        gatewayQueuedMillis: null,
        ...(user.membership && queryGroups(user.membership)),
        ...this.#statementOf(proxied, body),
      },
      queryText: body.text,
      decision: decisionText(decision, {
        ...this.#way(proxied, { body, user, slots: null }, false, nowhere),
        refused: reason,
        conditions: settings.historyEnabled ? conditions() : [],
      }),
      state: isDenied ? 'DENIED' : 'REFUSED',
      error: { ...error, message },
    });
    return { ...refusal, queryId };
  }

  /**
   * @param queryId null if the cluster responded with none, or it was rejected
   * @param outcome `queued`: it waits; or the reason of the gateway's rejection; null if a cluster responded, or failed to
   * @param status of the client's response; 0 when the client went away
   */
  logEnd(
    proxied: ProxiedRequest,
    submission: Submission,
    { decision, cluster, fallback, steps, attempts }: SubmissionRoute,
    queryId: string | null,
    outcome: Refusal['reason'] | 'queued' | null,
    status: number,
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
        refused: outcome === null || outcome === 'queued' ? undefined : outcome,
        queued: outcome === 'queued' || undefined,
        queuedAs,
        user: user.user,
        mappedFrom: user.mapping?.from,
        source: this.#sourceOf(proxied),
        status: status === 0 ? 'client_gone' : status,
        durationMs: Math.round(this.#parts.clock.monotonic() - proxied.startedAt),
        queryDigest: this.digestsOf(proxied, submission).shape,
        queryText: settings.logQueryText ? body.text : undefined,
      },
      'query',
    );
  }

  /** @param isSubmitted whether its cluster has responded now */
  #way(
    proxied: ProxiedRequest,
    submission: Pick<Submission, 'body' | 'user' | 'slots' | 'waitedMs'>,
    isSubmitted: boolean,
    route: Omit<SubmissionRoute, 'decision' | 'choice'> & Partial<SubmissionRoute>,
  ): WayToCluster {
    const { cluster, fallback, steps, attempts, choice = null } = route;
    const { body, user } = submission;
    const { estimates } = this.#parts;
    const { startedAt, analysedAt, decidedAt } = proxied;
    const now = Math.round(this.#parts.clock.monotonic() - startedAt);
    return {
      ...{ cluster: cluster?.name ?? '', fallback, steps, attempts, choice, admission: waitNote(submission) },
      times: {
        receivedAt: this.#parts.clock.now() - now,
        ...(analysedAt === undefined ? {} : { analysed: Math.round(analysedAt - startedAt) }),
        ...(decidedAt === undefined ? {} : { decided: Math.round(decidedAt - startedAt) }),
        ...(isSubmitted ? { submitted: now } : {}),
      },
      request: this.#requestOf(proxied, body),
      ...(estimates?.isRead === true && { estimate: estimateIn(estimates.table, this.digestsOf(proxied, { body })) }),
      membership: user.membership,
      mapping: user.mapping,
    };
  }

  /**
   * Stored data of a request for the replay of rules (docs/rules.md#impact): a few protocol headers, and headers that
   * active rules read by name. Never a header that may contain a secret.
   */
  #requestOf({ fields, target }: ProxiedRequest, body: BodyStart): StoredRequest {
    const { rules } = this.#parts.table.current;
    const values: Record<string, string | null> = {};
    const unkept: string[] = [];
    const keep = (name: string, isNotedWhereAbsent: boolean): void => {
      const [value, ...further] = fields.get(name) ?? [];
      if (value === undefined) {
        if (isNotedWhereAbsent) values[name] = null;
      } else if (further.length > 0 || value.length > MAX_VALUE_LENGTH) unkept.push(name);
      else values[name] = value;
    };
    for (const name of this.#ofProtocol) keep(name, false);
    for (const name of rules === null ? [] : this.#readBy(rules)) keep(name, true);
    if (fields.has(this.#preparedKey)) unkept.push(this.#preparedKey);
    if (target.query !== null) unkept.push('query string');
    const contentType = fields.get('content-type')?.[0]?.toLowerCase() ?? '';
    if (contentType.startsWith('application/x-www-form-urlencoded')) unkept.push('form');
    if (contentType.includes('charset') && !/charset\s*=\s*"?utf-?8/.test(contentType)) unkept.push('text');
    return {
      text: body.complete ? body.text.length : null,
      headers: values,
      ...(unkept.length === 0 ? {} : { unkept }),
      ...(rules?.version === undefined ? {} : { rules: rules.version }),
      ...(target.path === STATEMENT_PATH ? {} : { path: target.path.slice(0, MAX_VALUE_LENGTH) }),
    };
  }

  #readBy(rules: RuleSet): readonly string[] {
    let names = this.#ofRules.get(rules);
    if (names === undefined) {
      names = (rules.headers ?? [])
        .filter((name) => name.length <= MAX_VALUE_LENGTH && !isSecretHeader(name) && !this.#ofProtocol.includes(name))
        .slice(0, MAX_OF_RULES);
      this.#ofRules.set(rules, names);
    }
    return names;
  }

  #sourceOf({ fields }: ProxiedRequest): string | undefined {
    return fields.get(this.#sourceKey)?.[0];
  }
}

export interface Submission {
  readonly body: BodyStart;
  readonly user: RequestUser;
  readonly decision: GroupDecision;
  /** The id of the gateway's own under which it waited; left out if it did not. */
  readonly queuedAs?: string;
  /** Milliseconds that it waited under that id, at all replicas. */
  readonly waitedMs?: number;
  /** The query that the statement is about (kill_query): it goes to that query's cluster; null for all others. */
  readonly about: { readonly queryId: string; readonly cluster: ClusterEntry } | null;
  /**
   * The transaction that the statement belongs to, with the cluster that began it (null if no one knows it); null for
   * statements outside of transactions.
   */
  readonly transaction: { readonly id: string; readonly cluster: ClusterEntry | null } | null;
  /** Version of the rules that it was decided by, of one that waited in the queue. */
  readonly rulesVersion?: string | undefined;
  /** Its slots, or null. */
  readonly slots: QuerySlots | null;
  /** Of a read that may run again after its cluster is lost; left out for all others. */
  readonly survival?: SurvivalRecord;
}

/** An attempt of a query that its cluster lost or could not finish. */
export interface LostAttempt {
  readonly queryId: string;
  readonly cluster: string;
  /** Text for users. */
  readonly reason: string;
  /** Error page of its cluster; left out if that was lost, or the page is long. */
  readonly page?: string | undefined;
  /** Its coordinator ended or was restarted. Clients can cause an unknown query by a wrong URL. */
  readonly isCertain?: boolean;
}

/** State of a query that may run again (docs/survival.md). */
export interface SurvivalRecord {
  /** Routing group of the first attempt: retries count for it. */
  readonly group: string;
  readonly lost: readonly LostAttempt[];
  /** Digest of the columns that its client has; null for none. */
  readonly columns: string | null;
}

/** Description of a submission's wait for trace, header and log; null without a wait. */
export function waitNote({ slots, waitedMs }: Pick<Submission, 'slots' | 'waitedMs'>): string | null {
  const note = slots?.note ?? null;
  return note === null && waitedMs !== undefined ? `waited ${(waitedMs / 1000).toFixed(1)} s` : note;
}

/** Groups of a user to store with a query; absent if empty. */
export function queryGroups({ groups }: Membership): { readonly groups?: readonly string[] } {
  if (groups.length === 0) return {};
  // The list itself if it is short: followed queries reference it.
  return { groups: groups.length > MAX_QUERY_GROUPS ? groups.slice(0, MAX_QUERY_GROUPS) : groups };
}
