import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { HeaderFields } from '../model/http.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { HasCapacity, PickRequest } from '../routing/clusterChooser.ts';
import type { GroupDecision } from '../routing/groupRouter.ts';
import { type Refusal, toRefusal } from '../routing/refusal.ts';
import type { ClusterEntry } from '../routing/routingTable.ts';
import type { ProxiedTarget } from '../routing/statementProtocol.ts';
import { type ChoiceStep, explainNoCluster, type StoredChoice } from '../routing/storedDecision.ts';
import type { RuleRequest } from '../rules/decision.ts';
import type { QueryProperties } from '../sql/queryProperties.ts';
import type { BodyStart } from './bodies/requestBodies.ts';
import type { ExchangeParts } from './dataPlane.ts';
import { type ClientView, linesWithout, type RequestHeaders } from './headers/requestHeaders.ts';
import type { RequestTrace } from './tracing/openTelemetry.ts';
import type { Upstream } from './upstreams/upstreams.ts';
import { headerText } from './user/clusterTokens.ts';
import { holdsServiceAccountToken } from './user/tokens.ts';

export interface ProxiedRequest
  extends Pick<ProxiedTarget, 'target' | 'clusterKey' | 'pathKind' | 'kind' | 'statementPath'> {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Its header lines, those of the engine protocol under the configured product. */
  readonly fields: HeaderFields;
  readonly method: string;
  readonly rawTarget: string;
  /** Prefixes of the names under which the client sends headers of the engine protocol (`ClientNames`). */
  readonly clientPrefixes: readonly string[];
  /** User of the client's certificate, in whose name clusters are asked; null without one, and for pages and probes. */
  readonly certificateUser: string | null;
  /** Name that clusters get in place of what the client states; left out for none. */
  forwardedUser?: string;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Monotonic milliseconds at which it was analyzed; left out before. */
  analysedAt?: number;
  /** Monotonic milliseconds at which its routers had decided; left out before. */
  decidedAt?: number;
  /** Null: traces are off. */
  readonly trace: RequestTrace | null;
  /** Of a request about a query that can continue on another cluster; left out for all others. */
  readonly survival?: SurvivalMark;
  ended: boolean;
}

/** Mark of a request about a query without rows (docs/survival.md). */
export interface SurvivalMark {
  /** Id of its row in the queue. */
  readonly id: string;
  /** Digest of the columns that its client has; null for none. */
  readonly columns: string | null;
}

/**
 * A proxied request as rules and the external rules service see it. Where the client is, and whether it sent a form, is
 * found out when a user asks: few rules do, and each search of the header lines costs as much as a rule.
 */
export class ProxiedRuleRequest implements RuleRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string | null;
  readonly headers: readonly string[];
  readonly fields: HeaderFields;
  readonly remoteUser = null;
  readonly isSubmission: boolean;
  readonly user: RequestUser | null;
  readonly sender: RequestUser | null;
  readonly queryProperties: QueryProperties | null;
  readonly #request: IncomingMessage;
  readonly #views: RequestHeaders;
  readonly #body: BodyStart | null;
  #client: ClientView | null = null;

  /**
   * @param analysis null if the request was not analyzed
   * @param sender null if no rule needs it
   * @param body null if it is not read before the decision
   * @param views states where the client is
   */
  constructor(
    proxied: ProxiedRequest,
    analysis: Analysis | null,
    sender: RequestUser | null,
    body: BodyStart | null,
    views: RequestHeaders,
  ) {
    const { request, fields, target } = proxied;
    this.method = proxied.method;
    this.path = target.path;
    this.query = target.query;
    this.headers = request.rawHeaders;
    this.fields = fields;
    this.isSubmission = proxied.kind === 'submission';
    this.sender = sender;
    this.user = analysis === null ? null : analysis.user;
    this.queryProperties = analysis === null ? null : analysis.queryProperties;
    this.#request = request;
    this.#views = views;
    this.#body = body;
  }

  get scheme(): 'http' | 'https' {
    return this.#view().scheme;
  }

  get serverName(): string {
    return this.#view().host;
  }

  get serverPort(): number {
    return this.#view().port;
  }

  get remoteAddr(): string {
    return this.#view().address;
  }

  get formBody(): string | null {
    const body = this.#body;
    if (body === null || !body.complete) return null;
    const contentType = this.fields.get('content-type')?.[0]?.toLowerCase();
    return contentType?.startsWith('application/x-www-form-urlencoded') === true ? body.text : null;
  }

  #view(): ClientView {
    this.#client ??= this.#views.clientOf(this.#request);
    return this.#client;
  }
}

export interface Analysis {
  readonly user: RequestUser;
  /** Null without an analysis. */
  readonly queryProperties: QueryProperties | null;
}

/**
 * Extracts user and query (docs/request-user.md, docs/sql-analysis.md). Returns synchronously if possible, so that a
 * submission costs no turn of the event loop. Must neither throw nor reject: unknown values are null.
 */
export interface RequestAnalyzer {
  /** The user only, for history and log; also with `analyzeRequest: false`. */
  user(proxied: ProxiedRequest): RequestUser | Promise<RequestUser>;
  /**
   * User and query properties. Called if rules need them, or if the body may contain a call of kill_query.
   * @param body the whole body; null if it is longer than the buffer, or missing
   */
  analyze(proxied: ProxiedRequest, body: BodyStart | null): Analysis | Promise<Analysis>;
}

export const KILL_QUERY = /kill_query|\bexecute\b/i;
/** The name in a prepared statement's header: URL-encoded, or compressed and only readable by the analysis. */
const inHeader = /kill(?:_|%5f)query|zstd/i;

/**
 * True if a submission may call `kill_query`, so that it must be analyzed even if no rule needs that: its text contains
 * the word, or it executes such a prepared statement of the request.
 * @param text the body
 * @param preparedKey `ProductNames.headerKey('Prepared-Statement')`
 */
export function mayKillQuery(text: string, fields: HeaderFields, preparedKey: string): boolean {
  return /kill_query/i.test(text) || fields.get(preparedKey)?.some((value) => inHeader.test(value)) === true;
}

export interface Target {
  readonly cluster: ClusterEntry;
  /** Connections to it; null if its URL is not an HTTP URL. */
  readonly upstream: Upstream | null;
  /** True if it serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** The clusters that were there; null if only one could take it. */
  readonly choice: StoredChoice | null;
}

export interface NoTarget {
  readonly cluster: null;
  /** True if a retry soon makes sense: an active cluster has not been checked yet. */
  readonly pending: boolean;
  readonly refusal: Refusal;
  readonly choice: StoredChoice;
}

/** Chooses among the clusters that the decision allows; see `ClusterChooser.choose` for the parameters. */
export function chooseTarget(
  { table: { current }, chooser, upstreams }: ExchangeParts,
  decision: GroupDecision,
  request: PickRequest,
  excluded: ReadonlyMap<string, string> | null,
  login: string | null = null,
  hasCapacity?: HasCapacity,
): Target | NoTarget {
  const choice = chooser.choose(current, decision, request, excluded, login, hasCapacity);
  const candidates = chooser.toStored(current, choice, excluded);
  if (choice.cluster !== null) {
    const { cluster, fallback, steps } = choice;
    const upstream = upstreams.byProxyTo.get(cluster.proxyTo) ?? upstreams.get(cluster.proxyTo);
    return { cluster, upstream, fallback, steps, choice: candidates };
  }
  const { pending } = choice;
  const refusal = toRefusal(pending ? 'pending' : 'no_cluster', explainNoCluster(decision, choice));
  return { cluster: null, pending, refusal, choice: candidates };
}

/** The one cluster that can take a request. */
export function onlyTarget({ upstreams }: ExchangeParts, cluster: ClusterEntry): Target {
  return { cluster, upstream: upstreams.get(cluster.proxyTo), fallback: false, steps: null, choice: null };
}

export interface OutgoingRequest {
  readonly method: string;
  /** Path and query string as the client sent them. */
  readonly target: string;
  readonly headers: readonly string[];
  /** The gateway as the client named it; null without forwarded headers. */
  readonly view: ClientView | null;
  /** True if each cluster gets the same request. */
  readonly isCommon: boolean;
  readonly body: Buffer | Readable | null;
  /** Milliseconds until the head of the response must be there (`routing.asyncTimeout`). */
  readonly headersTimeout: number;
}

export interface Destination {
  /** Registry name; "" where it is not known. */
  readonly name: string;
  readonly proxyTo: string;
}

/**
 * A request as any cluster could get it.
 * @param decision how it was routed; null for a follow-up
 */
export function outgoingRequest(
  parts: ExchangeParts,
  proxied: ProxiedRequest,
  decision: GroupDecision | null,
  body: OutgoingRequest['body'],
): OutgoingRequest {
  const { headers, settings, localAudiences } = parts;
  const { request, fields, method, rawTarget, forwardedUser, kind, survival } = proxied;
  const external = decision?.external;
  // The headers that the external rules service sets.
  const byRules = external !== undefined && 'headers' in external ? external.headers : null;
  const set = forwardedUser === undefined ? byRules : withUser(parts, forwardedUser, byRules);
  const isPlain = isCommon(parts, proxied);
  const { lines, view } = headers.forCluster(request, kind === 'submission' || survival !== undefined, set);
  return {
    method,
    target: rawTarget,
    headers: localAudiences === null ? lines : withoutLocalToken(fields, lines, localAudiences),
    view,
    isCommon: isPlain,
    body,
    headersTimeout: settings.asyncTimeout,
  };
}

/** Spooled segments need the key of their cluster. */
function takesSpooled({ spooledEncoding, settings }: ExchangeParts, { kind, fields }: ProxiedRequest): boolean {
  return kind === 'submission' && settings.forwardedHeadersEnabled && fields.has(spooledEncoding);
}

function isCommon(parts: ExchangeParts, proxied: ProxiedRequest): boolean {
  if (proxied.trace !== null || proxied.clusterKey !== null || takesSpooled(parts, proxied)) return false;
  return proxied.certificateUser === null || parts.identities === null;
}

/** A request as one cluster gets it: with a token of the user, its key as a path prefix if its URLs need it, and the trace. */
export function requestTo(
  parts: ExchangeParts,
  cluster: Destination,
  outgoing: OutgoingRequest,
  proxied: ProxiedRequest,
): OutgoingRequest {
  const { identities, keys, settings } = parts;
  const { trace, certificateUser, clusterKey } = proxied;
  const { name, proxyTo } = cluster;
  const isNamed = certificateUser !== null && identities !== null;
  let headers = isNamed ? identities.named(outgoing.headers, certificateUser, cluster) : outgoing.headers;
  const isKeyed = clusterKey !== null || (takesSpooled(parts, proxied) && keys.isOneOfSeveral(name));
  if (isKeyed && name !== '' && settings.forwardedHeadersEnabled) headers = keys.withPrefix(headers, name);
  if (trace !== null) headers = [...headers, ...trace.toCluster(name, proxyTo)];
  return { ...outgoing, headers };
}

/** The lines without a token of a service account that only the gateway may use. */
function withoutLocalToken(fields: HeaderFields, lines: string[], audiences: readonly string[]): string[] {
  const isHeld = fields.get('authorization')?.some((value) => holdsServiceAccountToken(value, audiences));
  return isHeld ? linesWithout(lines, new Set(['authorization'])) : lines;
}

/** The user's name in addition to the header lines that rules set, which count where they name a user themselves. */
function withUser(
  { names }: ExchangeParts,
  user: string,
  set: Readonly<Record<string, string>> | null,
): Readonly<Record<string, string>> {
  const stated = new Set(Object.keys(set ?? {}).map((name) => names.ownHeader(name).toLowerCase()));
  const own = [names.header('User'), names.header('Original-User')].filter((name) => !stated.has(name.toLowerCase()));
  return { ...Object.fromEntries(own.map((name) => [name, headerText(user)])), ...set };
}
