import { type ServerResponse, validateHeaderValue } from 'node:http';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Clock, Random } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import type { ProductNames } from '../../model/names.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import { type Refusal, renderRefusal, toRefusal } from '../../routing/refusal.ts';
import type { ChoiceStep } from '../../routing/storedDecision.ts';
import { endWith, isUnfinished } from '../bodies/requestBodies.ts';
import type { ExchangeParts, SharedParts } from '../dataPlane.ts';
import { type OwnCookieNames, setsOwnCookie } from '../headers/cookies.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { codeOf } from '../upstreams/upstreams.ts';

/** Makes the header lines of a cluster's response for the client. */
export class ResponseHeaders {
  readonly #names: ProductNames;
  readonly #ownCookies: OwnCookieNames;
  readonly #isSandboxed: boolean;

  /**
   * @param ownCookies cookies of the gateway itself: no cluster sets them
   * @param isSandboxed true if responses that a browser could show as a page are shown without scripts and outside of the
   * gateway's origin (`server.enginePages` other than `proxy`)
   */
  constructor(names: ProductNames, ownCookies: OwnCookieNames, isSandboxed: boolean) {
    this.#names = names;
    this.#ownCookies = ownCookies;
    this.#isSandboxed = isSandboxed;
  }

  /**
   * Lines of a cluster's response for the client, names and values in turn: hop-by-hop ones dropped, those that speak for
   * the whole origin dropped, repeated ones kept as lines of their own.
   * @param prefixes of the names under which the client gets headers of the engine protocol; empty: those of the cluster
   */
  forClient(headers: IncomingHttpHeaders, prefixes: readonly string[] = []): string[] {
    const lines: string[] = [];
    const connection = headers.connection;
    const named =
      connection === undefined || connection === 'keep-alive' || connection === 'close'
        ? null
        : namesIn(connection, this.#names);
    for (const name in headers) {
      if (name === 'set-cookie') {
        this.#pushCookies(lines, headers[name]);
        continue;
      }
      if (notForwarded.has(name) || named?.has(name) === true) continue;
      const suffix = prefixes.length > 0 && name.startsWith('x-') ? this.#protocolSuffix(name) : null;
      const value = headers[name];
      if (suffix === null) {
        if (typeof value === 'string') lines.push(name, value);
        else push(lines, name, value);
      } else if (this.#isFirst(headers, name, suffix))
        for (const prefix of prefixes) push(lines, prefix + suffix, value);
    }
    // Browsers show exactly this type as text; every other type may be a page.
    if (this.#isSandboxed && headers['content-type'] !== 'application/json') lines.push(...sandboxLines);
    return lines;
  }

  /** Trailers of a cluster's response for the client, without what `forClient` drops; null for none. */
  trailersForClient(trailers: IncomingHttpHeaders): Record<string, string> | null {
    const headers: Record<string, string> = {};
    let count = 0;
    for (const name in trailers) {
      const value = trailers[name];
      if (value === undefined || notInTrailers.has(name)) continue;
      headers[name] = typeof value === 'string' ? value : value.join(', ');
      count++;
    }
    return count === 0 ? null : headers;
  }

  /** Name of a header of the engine protocol without its prefix; null for other headers. */
  #protocolSuffix(name: string): string | null {
    const prefix = this.#names.headerPrefixes.find((each) => name.startsWith(each));
    return prefix === undefined ? null : name.slice(prefix.length);
  }

  /** True if the gateway reads this name of a header, and not another one that the cluster sends too. */
  #isFirst(headers: IncomingHttpHeaders, name: string, suffix: string): boolean {
    const { headerPrefixes } = this.#names;
    return name.startsWith(headerPrefixes.find((prefix) => headers[prefix + suffix] !== undefined) ?? '');
  }

  #pushCookies(lines: string[], value: string | string[] | undefined): void {
    if (value === undefined) return;
    for (const line of typeof value === 'string' ? [value] : value) {
      if (!setsOwnCookie(line, this.#ownCookies)) lines.push('set-cookie', line);
    }
  }
}

/** CSP Level 3 `sandbox`: an opaque origin without scripts, forms and plug-ins. */
const sandboxLines = ['content-security-policy', 'sandbox', 'x-content-type-options', 'nosniff'] as const;

/** They hold for every page of the address, or of its host, not for this response alone: docs/serving.md. */
const ofWholeOrigin = [
  'service-worker-allowed',
  'clear-site-data',
  'strict-transport-security',
  'alt-svc',
  'nel',
  'report-to',
];

const ofConnection = ['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade', 'te'];

const notForwarded: ReadonlySet<string> = new Set([...ofConnection, ...ofWholeOrigin]);

/** Fields that are not for trailers (RFC 9110 §6.5.1) and act on the client where an intermediary merges them. */
const notInTrailers: ReadonlySet<string> = new Set([
  ...notForwarded,
  'content-length',
  'content-type',
  'content-encoding',
  'trailer',
  'set-cookie',
  'location',
  'www-authenticate',
]);

function push(lines: string[], name: string, value: string | string[] | undefined): void {
  if (typeof value === 'string') lines.push(name, value);
  else if (value !== undefined) for (const one of value) lines.push(name, one);
}

function namesIn(connection: string | readonly string[], { isProtocolHeader }: ProductNames): Set<string> | null {
  const names = new Set<string>();
  for (const line of typeof connection === 'string' ? [connection] : connection) {
    for (const token of line.toLowerCase().split(',')) {
      const name = token.trim();
      if (!isProtocolHeader(name)) names.add(name);
    }
  }
  for (const name of ['keep-alive', 'close', 'content-length', 'content-type', '']) names.delete(name);
  return names.size === 0 ? null : names;
}

export interface RespondingCluster {
  readonly cluster: { readonly name: string };
  /** How the request was routed; null for a follow-up, which belongs to its query's cluster. */
  readonly decision: GroupDecision | null;
  /** True if the cluster serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Reason and duration of the wait before admission; absent without a wait. */
  readonly admission?: string | null;
  /** The step of a login that the request was; null for all others. */
  readonly handshake: Handshake | null;
}

/** Groups that the header names in addition to the one that was decided on; the log and the history name all. */
const MAX_STEPS = 8;

/**
 * The header lines that the gateway adds to the response of a cluster: its cookies, and how the request was routed.
 * @param host of the cluster
 */
export function addedLines(
  { names, handshakes, settings }: ExchangeParts,
  { kind }: ProxiedRequest,
  headers: IncomingHttpHeaders,
  host: string,
  responding: RespondingCluster,
): readonly string[] {
  const { cluster, handshake } = responding;
  const lines: string[] = [];
  if (handshakes !== null) {
    const ofLogin = handshakes.linesOfLogin(headers, cluster.name);
    lines.push(...(ofLogin.length > 0 ? ofLogin : (handshake?.linesFor(cluster.name) ?? [])));
  }
  if (settings.explainHeader) lines.push(...explainLine(names, responding));
  if (settings.includeClusterHostInResponse && kind === 'submission') {
    lines.push('Set-Cookie', `${names.clusterHostCookie}=${host}`);
  }
  return lines;
}

/** The header line that states to a client how its request was routed (`routing.explainHeader`). */
function explainLine(
  names: ProductNames,
  { cluster, decision, fallback, steps, admission = null }: RespondingCluster,
): readonly string[] {
  const parts = [`cluster=${token(cluster.name)}`];
  if (decision === null) parts.push('by=query');
  else {
    parts.push(`group=${token(decision.group)}`, `by=${decision.decidedBy}`);
    if (decision.rule !== null) parts.push(`rule=${token(decision.rule)}`);
    if (fallback) parts.push('fallback=true');
    if (steps !== null) parts.push(`steps=${steps.slice(-MAX_STEPS).map(shortStep).join(',')}`);
    if (admission !== null) parts.push(`admission="${quoted(admission)}"`);
  }
  return [names.header('Routing-Decision'), parts.join('; ')];
}

/** Content of the header for a queued query. */
export interface ExplainedWait {
  readonly group: string;
  /** Null if this replica does not know. */
  readonly decidedBy: string | null;
  readonly rule: string | null;
  /** Null if those that wait have no order, and where another replica holds it. */
  readonly position: { readonly position: number; readonly waiting: number } | null;
  /** Reason of the wait; null if another replica has it. */
  readonly why: string | null;
}

/** The same line while a query waits: its group and its place there. */
export function waitLine(names: ProductNames, wait: ExplainedWait): readonly string[] {
  const { group, decidedBy, rule, position, why } = wait;
  const parts = [
    ...(group === '' ? [] : [`group=${token(group)}`]),
    ...(decidedBy === null ? [] : [`by=${decidedBy}`]),
    ...(rule === null ? [] : [`rule=${token(rule)}`]),
    'queued=true',
    ...(position === null ? [] : [`position=${position.position}`, `waiting=${position.waiting}`]),
    ...(why === null ? [] : [`admission="${quoted(why)}"`]),
  ];
  return [names.header('Routing-Decision'), parts.join('; ')];
}

function shortStep({ group, outcome }: ChoiceStep): string {
  return `${token(group)}:${outcome}`;
}

/** Text for users in quotes: names in it may be anything. */
function quoted(text: string): string {
  return text.replaceAll(/[^ !#-[\]-~]/g, '?');
}

/** A value that fits into a header line whatever people named things. */
function token(text: string): string {
  return /^[\w.:-]+$/.test(text) ? text : `"${encodeURIComponent(text)}"`;
}

/** RFC 9112 §4 also allows tabs and bytes beyond ASCII, which have no known encoding. */
const printableAscii = /^[\x20-\x7e]*$/;

/** The head of a cluster's response cannot be sent to a client. */
class UnusableHead extends Error {}

/**
 * Writes the head of a cluster's response to the client.
 * @param statusText reason phrase of the cluster; default: the standard one
 * @param lines names and values in turn
 * @throws UnusableHead and Node's own errors if the head cannot be sent. The response is unchanged then, so that
 * another head can be written.
 */
export function writeClusterHead(
  response: ServerResponse,
  status: number,
  statusText: string | undefined,
  lines: string[],
): void {
  const isStandard = statusText === undefined || statusText === '';
  if (!isStandard && !printableAscii.test(statusText)) {
    throw new UnusableHead(`The reason phrase of status ${status} has characters outside printable ASCII`);
  }
  // Node determines that these have no body before it reads the headers, and never reverts that.
  if (status === 204 || status === 304) {
    for (let index = 0; index < lines.length; index += 2) {
      validateHeaderValue(lines[index] as string, lines[index + 1] as string);
    }
  }
  try {
    if (isStandard) response.writeHead(status, lines);
    else response.writeHead(status, statusText, lines);
  } catch (error) {
    if (!response.headersSent) {
      if (response.req.httpVersionMajor === 1) response.statusMessage = '';
      for (const name of response.getHeaderNames()) response.removeHeader(name);
    }
    throw error;
  }
}

const PROCESS_DIGITS = 8;

/** Ids of rejected submissions: of the form of query ids, but never of a coordinator. */
export class RefusalIds {
  readonly #clock: Pick<Clock, 'now'>;
  readonly process: string;
  #count = 0;

  constructor(clock: Pick<Clock, 'now'>, random: Random) {
    this.#clock = clock;
    this.process = Math.floor(random() * 36 ** PROCESS_DIGITS)
      .toString(36)
      .padStart(PROCESS_DIGITS, '0');
  }

  /** Returns the next id, unique across replicas. */
  next(): string {
    const stamp = new Date(this.#clock.now()).toISOString().replace(/[-:]/g, '').slice(0, 15).replace('T', '_');
    this.#count = (this.#count + 1) % 100_000;
    return `${stamp}_${String(this.#count).padStart(5, '0')}_refused_${this.process}`;
  }
}

/** Responses that the gateway gives itself. */
export type GatewayResponses = Pick<OwnResponses, 'reject' | 'failure'>;

const PLAIN_TEXT = ['content-type', 'text/plain; charset=utf-8'] as const;

export class OwnResponses {
  readonly #parts: SharedParts;

  constructor(parts: SharedParts) {
    this.#parts = parts;
  }

  reject(proxied: ProxiedRequest, refusal: Refusal): void {
    const { metrics, headers, settings, logger, refusalIds } = this.#parts;
    const { reason, message } = refusal;
    metrics.countRejection(reason);
    proxied.trace?.noteFailure(reason);
    const client = headers.clientOf(proxied.request);
    const rendered = renderRefusal(refusal, {
      statementPath: proxied.statementPath,
      statementErrors: settings.statementErrors,
      baseUrl: `${client.scheme}://${client.host}:${client.port}`,
      fallbackId: refusalIds.next(),
    });
    logger.debug({ reason, path: proxied.target.path, method: proxied.method, status: rendered.status }, message);
    this.send(proxied, rendered.status, rendered.headers, rendered.body);
    // Of a long body only the start has been read. The rest is read and dropped, or the next request of the connection
    // would wait behind it for ever.
    proxied.request.resume();
  }

  /**
   * Responds 502 as text (docs/compatibility.md#proxying).
   * @param hasResponse true if the cluster began a response
   */
  failure(proxied: ProxiedRequest, error: Error, hasResponse: boolean): void {
    const { names, logger, settings } = this.#parts;
    const remote = `remote ${names.product} server`;
    const message =
      codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT'
        ? `Request to ${remote} timed out after ${durationText(settings.asyncTimeout)}`
        : hasResponse
          ? `Failed reading response from ${remote}`
          : `Request to ${remote} failed`;
    logger.warn({ path: proxied.target.path, method: proxied.method, err: error }, message);
    this.send(proxied, 502, PLAIN_TEXT, message);
  }

  /** Responds, and counts a request that ends without an exchange; those with one are counted by it. */
  send(proxied: ProxiedRequest, status: number, headers: readonly string[], body: string): void {
    const { response } = proxied;
    response.once('close', () => this.#parts.metrics.noteEnd(proxied, response.statusCode, 0, null));
    respond(response, status, headers, body);
  }

  /** Serves a request; an error is a defect: logged, and responded 500. Never rejects. */
  async guard(proxied: ProxiedRequest, serve: () => void | Promise<void>): Promise<void> {
    try {
      await serve();
    } catch (error) {
      this.defect(proxied, error);
    }
  }

  /** Logs an error that is a defect, and responds 500. */
  defect({ response, target, method }: ProxiedRequest, error: unknown): void {
    this.#parts.logger.error({ err: error, path: target.path, method }, 'request failed');
    if (response.headersSent) response.destroy();
    else respond(response, 500, PLAIN_TEXT, 'The gateway failed; its log says why.\n');
  }
}

/**
 * Responds to a request whole, unless that is too late. One whose body is not there yet is the last of its connection.
 */
export function respond(response: ServerResponse, status: number, headers: readonly string[], body: string): void {
  if (response.headersSent || response.destroyed) return;
  if (isUnfinished(response.req)) endWith(response.req, response);
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(body))]);
  response.end(body);
}

/** Names of follow-ups may be long; messages hold their start. */
const MAX_SHOWN_ID = 256;

function clusterText(cluster: string): string {
  return cluster === '' ? '' : ` "${cluster}"`;
}

export function ownerGone(queryId: string, cluster: string, why: string): Refusal {
  const message = `Query ${queryId} was lost with its cluster${clusterText(cluster)}: ${why}. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}

/** The refusal of a statement about a query whose cluster cannot be connected to: no other one can take it. */
export function unreachableOwner(queryId: string, cluster: string, why: string): Refusal {
  return toRefusal('owner_gone', `The cluster${clusterText(cluster)} of query ${queryId} cannot be reached: ${why}.`);
}

/** The refusal of a request that would have to wait behind too many others. */
export function overloaded(cluster: string): Refusal {
  return toRefusal('overloaded', `Too many requests are waiting for cluster "${cluster}".`);
}

export function responseHeadTooLarge(cluster: string, queryId: string | null): Refusal {
  const key = 'serverConfig."http-server.max-response-header-size"';
  const message = `The headers of the answer of cluster "${cluster}" are larger than the gateway takes (${key}).`;
  return toRefusal('answer_head_too_large', message, queryId);
}

/** The refusal of a statement of a transaction whose cluster is gone, where no other one can say so: Trino's words. */
export function unknownTransaction(id: string): Refusal {
  const message = `Unknown transaction ID: ${id}. Possibly expired? Commands ignored until end of transaction block`;
  return toRefusal('unknown_transaction', message);
}

/** The refusal of a submission whose response names a query id that its cluster may not own. */
export function conflictingQueryId(queryId: string, cluster: string, conflict: 'owned' | 'tooMany'): Refusal {
  const why =
    conflict === 'owned'
      ? 'which belongs to another cluster'
      : 'of one coordinator more than a cluster may have in a short time';
  const message = `Cluster "${cluster}" answered with query id ${queryId}, ${why}. Its answer is refused; ask the administrator of the gateway.`;
  return toRefusal('ownership_conflict', message);
}

export function unknownQuery(queryId: string): Refusal {
  const message = `Query ${queryId.slice(0, MAX_SHOWN_ID)} is not known to any cluster behind this gateway.`;
  return toRefusal('unknown_query', message, queryId);
}

/** The refusal of a request for a query of which no one can say at the moment whether a cluster knows it. */
export function undecidedQuery(queryId: string): Refusal {
  const message = `Which cluster runs query ${queryId.slice(0, MAX_SHOWN_ID)} is not known at the moment; ask again in a second.`;
  return toRefusal('undecided_query', message, queryId);
}

/** The refusal of a request for a query whose suffix two clusters claimed while the database was unavailable. */
export function disownedQuery(queryId: string): Refusal {
  const message = `Query ${queryId} was lost: two clusters gave out its id while the database was unavailable. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}
