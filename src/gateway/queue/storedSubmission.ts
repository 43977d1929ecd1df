import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Writable } from 'node:stream';
import { firstHeader, headerFields, isHeader } from '../../model/http.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import { type Refusal, type RefusalReason, refusalError } from '../../routing/refusal.ts';
import { splitTarget, targetText } from '../../routing/statementProtocol.ts';
import type { DecisionTrace } from '../../rules/decision.ts';
import type { QuerySlots } from '../admission/admission.ts';
import { decisionText, queryGroups, type Submission, type SurvivalRecord } from '../exchanges/queryRecorder.ts';
import type { GatewayResponses } from '../exchanges/responses.ts';
import { findId } from '../exchanges/responseWatch.ts';
import type { RejectedQuery } from '../outcomes/queryOutcomes.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Maximum size of a queued body, bytes; a longer one is not buffered completely. */
export const MAX_QUEUED_BODY = 1_048_576;

/** A stored submission: all data that any replica needs to forward it later. */
export interface StoredSubmission {
  readonly rawTarget: string;
  readonly headers: readonly string[];
  /** Connection data that identifies the client, and the gateway's address as the client named it. */
  readonly connection: {
    readonly remoteAddress: string | undefined;
    readonly localAddress: string | undefined;
    readonly localPort: number | undefined;
    readonly encrypted: boolean;
  };
  readonly httpVersion: readonly [number, number];
  /** Absent from replicas of an earlier version. */
  readonly clientPrefixes?: readonly string[];
  readonly certificateUser: string | null;
  readonly user: RequestUser;
  readonly decision: GroupDecision;
  /** Version of the rules that decided. */
  readonly rulesVersion?: string | undefined;
  /** Of a read that may run again; absent for all others. */
  readonly survival?: SurvivalRecord | undefined;
  readonly body: Buffer;
}

const NEWLINE = 0x0a;

/** True if a submission can be stored: its body is complete. */
export function isStorable({ body }: Submission): boolean {
  return body.complete && body.bytes.length <= MAX_QUEUED_BODY;
}

export function storedSubmission(
  { request, rawTarget, clientPrefixes, certificateUser }: ProxiedRequest,
  { user, decision, body, rulesVersion, survival }: Submission,
): StoredSubmission {
  const { socket } = request;
  return {
    rawTarget,
    headers: request.rawHeaders,
    connection: {
      remoteAddress: socket.remoteAddress,
      localAddress: socket.localAddress,
      localPort: socket.localPort,
      encrypted: 'encrypted' in socket && socket.encrypted === true,
    },
    httpVersion: [request.httpVersionMajor, request.httpVersionMinor],
    clientPrefixes,
    certificateUser,
    user,
    decision: { ...decision, trace: storedTrace(decision.trace) },
    rulesVersion,
    survival,
    body: body.bytes,
  };
}

/** Serializes: a line of JSON, and the unchanged body. */
export function encodeSubmission({ body, ...rest }: StoredSubmission): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify(rest)}\n`), body]);
}

/** @throws SyntaxError for bytes that `encodeSubmission` did not create: a defect, as they were sealed */
export function decodeSubmission(bytes: Buffer): StoredSubmission {
  const end = bytes.indexOf(NEWLINE);
  const rest = JSON.parse(bytes.toString('utf8', 0, end)) as Omit<StoredSubmission, 'body'>;
  const decision = { ...rest.decision, trace: storedTrace(rest.decision.trace) };
  return { ...rest, decision, body: bytes.subarray(end + 1) };
}

/**
 * The trace without its entries: with thousands of rules these are far longer than the query. A replica of an earlier
 * version stores nothing of it.
 */
function storedTrace({ stored }: Partial<DecisionTrace>): DecisionTrace {
  return { rules: [], stored: stored ?? null };
}

/**
 * Restores the submission for exchanges.
 * @param queuedAs its id in the queue
 * @param waitedMs duration of the wait, milliseconds
 */
export function submissionOf(
  { body, user, decision, rulesVersion, survival }: StoredSubmission,
  queuedAs: string,
  waitedMs: number,
  slots: QuerySlots | null,
): Submission {
  const start = { bytes: body, complete: true, text: body.toString('utf8') };
  const query = {
    body: start,
    user,
    decision,
    about: null,
    transaction: null,
    queuedAs,
    waitedMs,
    rulesVersion,
    slots,
  };
  return survival === undefined ? query : { ...query, survival };
}

/**
 * Restores the request for exchanges, with responses into `response`.
 * @param startedAt monotonic milliseconds at which its client sent it
 */
export function requestOf(stored: StoredSubmission, response: ServerResponse, startedAt: number): ProxiedRequest {
  const { rawTarget, headers, connection, httpVersion, clientPrefixes = [], certificateUser, user } = stored;
  const request = {
    rawHeaders: headers,
    // A separate socket object for each: connection state is keyed by socket.
    socket: { ...connection } as unknown as Socket,
    httpVersionMajor: httpVersion[0],
    httpVersionMinor: httpVersion[1],
    method: 'POST',
    url: rawTarget,
    complete: true,
    resume: () => undefined,
    once: () => undefined,
  } as unknown as IncomingMessage;
  return {
    request,
    response,
    fields: headerFields(headers),
    method: 'POST',
    target: splitTarget(rawTarget) ?? { path: rawTarget, query: null },
    rawTarget,
    clusterKey: null,
    pathKind: 'statement',
    statementPath: true,
    kind: 'submission',
    clientPrefixes,
    certificateUser,
    ...(user.user !== null && user.mapping?.isForwarded === true ? { forwardedUser: user.user } : {}),
    startedAt,
    trace: null,
    // Requests of clients are counted; this one is the gateway's.
    ended: true,
  };
}

/** Header lines of a request with a body, for one without. */
export function withoutBody(headers: readonly string[]): string[] {
  const lines: string[] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as string;
    if (!isHeader(name, 'content-length') && !isHeader(name, 'transfer-encoding')) {
      lines.push(name, headers[index + 1] as string);
    }
  }
  return lines;
}

/** A request that cancels the query of a stored submission, with its client's credentials. */
export function cancellationOf(
  { headers, ...stored }: StoredSubmission,
  target: ProxiedRequest['target'],
  response: ServerResponse,
  startedAt: number,
): ProxiedRequest {
  const changed = { headers: withoutBody(headers), rawTarget: targetText(target) };
  const request = requestOf({ ...stored, ...changed }, response, startedAt);
  return { ...request, method: 'DELETE', kind: 'follow_up' };
}

/** Maximum size of a first response: those of engines have some hundred bytes, as results follow later. */
const MAX_RESPONSE_BYTES = 1_048_576;

export interface StoredResponse {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: Buffer;
}

const ofConnection: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'keep-alive']);

/** Captures a cluster's response to a submission without a connected client. */
export class CapturedResponse extends Writable {
  statusCode = 200;
  statusMessage = '';
  headersSent = false;
  readonly socket = null;
  readonly req = { httpVersionMajor: 1 };
  #lines: readonly string[] = [];
  #chunks: Buffer[] = [];
  #size = 0;

  /** Typed as the response that exchanges write to: they only use members that exist here. */
  get asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }

  /** The captured response; null if it is incomplete, or too large. */
  get content(): StoredResponse | null {
    if (!this.writableFinished || this.#size > MAX_RESPONSE_BYTES) return null;
    const headers: string[] = [];
    for (let index = 0; index + 1 < this.#lines.length; index += 2) {
      const name = this.#lines[index] as string;
      if (!ofConnection.has(name.toLowerCase())) headers.push(name, this.#lines[index + 1] as string);
    }
    return { status: this.statusCode, headers, body: Buffer.concat(this.#chunks) };
  }

  writeHead(status: number, second: string | readonly string[], third?: readonly string[]): this {
    this.statusCode = status;
    this.#lines = typeof second === 'string' ? (third ?? []) : second;
    this.headersSent = true;
    return this;
  }

  /** Trailers belong to results, which a first response does not have. */
  addTrailers(): void {}

  getHeaderNames(): readonly string[] {
    return [];
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.headersSent = true;
    this.#size += chunk.length;
    if (this.#size > MAX_RESPONSE_BYTES) {
      this.#chunks = [];
      this.destroy();
    } else {
      // The buffer may be lent: it is reused for the next read.
      this.#chunks.push(Buffer.from(chunk));
    }
    done();
  }
}

/** The final response for the client of a queued query. */
export type StoredOutcome =
  | ({ readonly kind: 'answer' } & StoredResponse)
  | { readonly kind: 'refusal'; readonly refusal: Refusal };

export type SubmissionOutcome =
  /** @property engineId the query's id at its cluster; null if the response has none */
  | { readonly kind: 'answer'; readonly response: StoredResponse; readonly engineId: string | null }
  | { readonly kind: 'rejected'; readonly refusal: Refusal }
  /** A cluster received it without a response: it may run. */
  | { readonly kind: 'lost'; readonly why: string };

export type SendSubmission = (proxied: ProxiedRequest, submission: Submission, responses: GatewayResponses) => void;

/**
 * Forwards a stored submission and captures the response, with or without a waiting client.
 * @param query its id in the queue, monotonic milliseconds of its arrival, and its slots
 * @param now monotonic milliseconds
 */
export function sendStored(
  send: SendSubmission,
  stored: StoredSubmission,
  { id, since, slots }: { readonly id: string; readonly since: number; readonly slots: QuerySlots | null },
  now: number,
): Promise<SubmissionOutcome> {
  const response = new CapturedResponse();
  const { promise, resolve } = Promise.withResolvers<SubmissionOutcome>();
  const responses: GatewayResponses = {
    reject: (_proxied, refusal) => {
      resolve({ kind: 'rejected', refusal });
      response.end();
    },
    failure: (_proxied, error) => {
      resolve({ kind: 'lost', why: error.message });
      response.end();
    },
  };
  response.on('close', () => {
    const { content } = response;
    if (content === null) resolve({ kind: 'lost', why: 'its answer broke off, or is larger than 1 MB' });
    else resolve({ kind: 'answer', response: content, engineId: engineIdOf(content) });
  });
  response.on('error', () => undefined);
  send(requestOf(stored, response.asResponse, since), submissionOf(stored, id, now - since, slots), responses);
  return promise;
}

function engineIdOf({ status, body }: StoredResponse): string | null {
  if (status !== 200) return null;
  const match = findId(body.toString('latin1'));
  return typeof match === 'string' ? null : match.id;
}

export function encodeOutcome(outcome: StoredOutcome): Buffer {
  const plain = outcome.kind === 'answer' ? { ...outcome, body: outcome.body.toString('base64') } : outcome;
  return Buffer.from(JSON.stringify(plain));
}

/** @throws SyntaxError for bytes that `encodeOutcome` did not create: a defect, as they were sealed */
export function decodeOutcome(bytes: Buffer): StoredOutcome {
  const plain = JSON.parse(bytes.toString()) as
    | { kind: 'answer'; status: number; headers: readonly string[]; body: string }
    | { kind: 'refusal'; refusal: Refusal };
  return plain.kind === 'answer' ? { ...plain, body: Buffer.from(plain.body, 'base64') } : plain;
}

/** Path and query string of the `nextUri` of an engine's response, or null. */
export function nextTargetOf(body: Buffer): ProxiedRequest['target'] | null {
  try {
    const { nextUri } = JSON.parse(body.toString('utf8')) as { nextUri?: unknown };
    if (typeof nextUri !== 'string') return null;
    const { pathname, search } = new URL(nextUri);
    return { path: pathname, query: search === '' ? null : search.slice(1) };
  } catch {
    return null;
  }
}

/** End of a queued query by its client. */
export type EndOfClient = 'CANCELLED' | 'ABANDONED';

/** Errors of the engines' protocol for actions of clients. */
const clientErrors: Readonly<Record<EndOfClient, RejectedQuery['error']>> = {
  CANCELLED: { name: 'USER_CANCELED', type: 'USER_ERROR', code: 3, message: 'Query was canceled' },
  ABANDONED: {
    ...{ name: 'ABANDONED_QUERY', type: 'USER_ERROR', code: 2 },
    message: 'The client stopped asking for the query, which waited in the queue of the gateway.',
  },
};

const stateOfReason: Partial<Record<RefusalReason, RejectedQuery['state']>> = {
  quarantined: 'DENIED',
  queue_dropped: 'CANCELLED',
  queue_lost: 'LOST',
};

/**
 * The outcome of a query that ended in the queue, under its client's id, for the history; null if it gets none.
 * @param waitedMs duration of the wait, milliseconds
 */
export function rejectedQuery(
  id: string,
  { user, decision, headers, body }: StoredSubmission,
  sourceHeader: string,
  waitedMs: number,
  end: Refusal | EndOfClient,
): RejectedQuery | null {
  const isOfClient = typeof end === 'string';
  const error = isOfClient ? clientErrors[end] : refusalError(end.reason);
  if (error === null) return null;
  return {
    queryId: id,
    state: isOfClient ? end : (stateOfReason[end.reason] ?? 'REFUSED'),
    facts: {
      cluster: null,
      routingGroup: decision.group,
      user: user.user,
      source: firstHeader(headers, sourceHeader) ?? null,
      rule: decision.rule,
      gatewayQueuedMillis: Math.round(waitedMs),
      ...(user.membership && queryGroups(user.membership)),
    },
    queryText: body.toString('utf8'),
    decision: decisionText(decision, {
      ...{ cluster: '', fallback: false, steps: null, attempts: null, queuedAs: id },
      ...(isOfClient ? {} : { refused: end.reason }),
      membership: user.membership,
      mapping: user.mapping,
    }),
    error: isOfClient ? clientErrors[end] : { ...error, message: end.message },
  };
}
