import type { Readable } from 'node:stream';
import { firstHeader, headerValues } from '../../model/rawHeaders.ts';
import { type ChoiceStep, explainNoCluster, type HasCapacity } from '../../routing/clusterChoice.ts';
import type { PickRequest } from '../../routing/clusterChooser.ts';
import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { type StoredChoice, toStoredChoice } from '../../routing/storedDecision.ts';
import type { ExchangeParts } from '../dataPlane.ts';
import { linesWithout } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { Upstream } from '../upstreams/upstreams.ts';
import { headerText } from '../user/clusterTokens.ts';
import { holdsServiceAccountToken } from '../user/tokens.ts';

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
  const candidates = toStoredChoice(current, choice.eligible, choice.cluster, excluded, (group) =>
    chooser.strategyOf(current, group),
  );
  if (choice.cluster !== null) {
    const { cluster, fallback, steps } = choice;
    return { cluster, upstream: upstreams.get(cluster.proxyTo), fallback, steps, choice: candidates };
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
  { request, method, rawTarget, forwardedUser, kind }: ProxiedRequest,
  decision: GroupDecision | null,
  body: OutgoingRequest['body'],
): OutgoingRequest {
  const { headers, settings, localAudiences } = parts;
  const byRules = decision === null ? null : setHeadersOf(decision);
  const set = forwardedUser === undefined ? byRules : withUser(parts, forwardedUser, byRules);
  const lines = headers.forCluster(request, kind === 'submission', set);
  return {
    method,
    target: rawTarget,
    headers: localAudiences === null ? lines : withoutLocalToken(request.rawHeaders, lines, localAudiences),
    body,
    headersTimeout: settings.asyncTimeout,
  };
}

/**
 * A request as one cluster gets it: with a token of the user, its key as a path prefix if its URLs need it, and the trace.
 * @param isSubmission true for a new query
 */
export function requestTo(
  { names, identities, keys, settings }: ExchangeParts,
  cluster: Destination,
  outgoing: OutgoingRequest,
  { request, trace, certificateUser, clusterKey }: ProxiedRequest,
  isSubmission: boolean,
): OutgoingRequest {
  const { name, proxyTo } = cluster;
  const { forwardedHeadersEnabled } = settings;
  // Segments of spooled results need the key of their cluster.
  const takesSpooled =
    isSubmission &&
    forwardedHeadersEnabled &&
    firstHeader(request.rawHeaders, names.headerKey('Query-Data-Encoding')) !== undefined;
  const isNamed = certificateUser !== null && identities !== null;
  if (!isNamed && trace === null && !takesSpooled && clusterKey === null) return outgoing;
  let headers = isNamed ? identities.named(outgoing.headers, certificateUser, cluster) : outgoing.headers;
  const isKeyed = clusterKey !== null || (takesSpooled && keys.isOneOfSeveral(name));
  if (isKeyed && name !== '' && forwardedHeadersEnabled) headers = keys.withPrefix(headers, name);
  if (trace !== null) headers = [...headers, ...trace.toCluster(name, proxyTo)];
  return { ...outgoing, headers };
}

/** The lines without a token of a service account that only the gateway may use. */
function withoutLocalToken(raw: readonly string[], lines: string[], audiences: readonly string[]): string[] {
  const values = headerValues(raw, 'authorization');
  const isHeld = values.some((value) => holdsServiceAccountToken(value, audiences));
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
