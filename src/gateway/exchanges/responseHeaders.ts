import { type ServerResponse, validateHeaderValue } from 'node:http';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ProductNames } from '../../model/names.ts';
import type { ChoiceStep } from '../../routing/clusterChoice.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { ExchangeParts } from '../dataPlane.ts';
import { type OwnCookieNames, setsOwnCookie } from '../headers/protocolHeaders.ts';
import type { Handshake } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

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
      const suffix = prefixes.length === 0 ? null : this.#protocolSuffix(name);
      if (suffix === null) push(lines, name, headers[name]);
      else if (this.#isFirst(headers, name, suffix))
        for (const prefix of prefixes) push(lines, prefix + suffix, headers[name]);
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
    if (!name.startsWith('x-')) return null;
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

/** True if lines may be added to a response; most settings add none. */
export function addsLines({ handshakes, settings }: ExchangeParts): boolean {
  return handshakes !== null || settings.explainHeader || settings.includeClusterHostInResponse;
}

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
