import type { Readable } from 'node:stream';
import { firstHeader, headerValues, isHeader } from '../../model/rawHeaders.ts';
import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import { BodyRelay } from '../bodies/bodyRelay.ts';
import type { ExchangeParts } from '../dataPlaneComposition.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { headerText } from '../user/clusterTokens.ts';
import { holdsServiceAccountToken } from '../user/kubernetesTokens.ts';

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
  const { headers, settings, heldAudiences } = parts;
  const byRules = decision === null ? null : setHeadersOf(decision);
  const set = forwardedUser === undefined ? byRules : withUser(parts, forwardedUser, byRules);
  const lines = headers.forCluster(request, kind === 'submission', set);
  return {
    method,
    target: rawTarget,
    headers: heldAudiences === null ? lines : withoutHeldToken(request.rawHeaders, lines, heldAudiences),
    body,
    headersTimeout: settings.asyncTimeout,
  };
}

/**
 * The body of a request on its way to a cluster.
 * @param start what was read of it; null for nothing
 * @param onTooLarge called if the body is too large
 */
export function relayedBody(
  { settings }: ExchangeParts,
  { request }: ProxiedRequest,
  start: Buffer | null,
  onTooLarge: () => void,
): BodyRelay {
  return new BodyRelay(request, start, settings.maxBodySize, onTooLarge);
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
function withoutHeldToken(raw: readonly string[], lines: string[], audiences: readonly string[]): string[] {
  const values = headerValues(raw, 'authorization');
  if (!values.some((value) => holdsServiceAccountToken(value, audiences))) return lines;
  return lines.flatMap((name, index) =>
    index % 2 === 0 && !isHeader(name, 'authorization') ? [name, lines[index + 1] as string] : [],
  );
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
