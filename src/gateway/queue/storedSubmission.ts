import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { isHeader } from '../../model/http.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import { splitTarget, targetText } from '../../routing/statementProtocol.ts';
import type { DecisionTrace } from '../../rules/decision.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { Submission } from '../exchanges/queryRecorder.ts';
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
  readonly body: Buffer;
}

const NEWLINE = 0x0a;

/** True if a submission can be stored: its body is complete. */
export function isStorable({ body }: Submission): boolean {
  return body.complete && body.bytes.length <= MAX_QUEUED_BODY;
}

export function storedSubmission(
  { request, rawTarget, clientPrefixes, certificateUser }: ProxiedRequest,
  { user, decision, body, rulesVersion }: Submission,
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
  { body, user, decision, rulesVersion }: StoredSubmission,
  queuedAs: string,
  waitedMs: number,
  slots: QuerySlots | null,
): Submission {
  const start = { bytes: body, complete: true, text: body.toString('utf8') };
  return { body: start, user, decision, about: null, transaction: null, queuedAs, waitedMs, rulesVersion, slots };
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

/** A request that cancels the query of a stored submission, with its client's credentials. */
export function cancellationOf(
  { headers, ...stored }: StoredSubmission,
  target: ProxiedRequest['target'],
  response: ServerResponse,
  startedAt: number,
): ProxiedRequest {
  const withoutBody: string[] = [];
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as string;
    if (!isHeader(name, 'content-length') && !isHeader(name, 'transfer-encoding')) {
      withoutBody.push(name, headers[index + 1] as string);
    }
  }
  const request = requestOf({ ...stored, headers: withoutBody, rawTarget: targetText(target) }, response, startedAt);
  return { ...request, method: 'DELETE', kind: 'follow_up' };
}
