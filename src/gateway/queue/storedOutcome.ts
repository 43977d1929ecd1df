import type { Refusal } from '../../routing/refusal.ts';
import type { QuerySlots } from '../admission/admission.ts';
import type { Submission } from '../exchanges/queryRecorder.ts';
import type { GatewayResponses } from '../exchanges/responses.ts';
import { findId } from '../exchanges/responseWatch.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { CapturedResponse, type StoredResponse } from './capturedResponse.ts';
import { requestOf, type StoredSubmission, submissionOf } from './storedSubmission.ts';

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
    noteEnd: () => undefined,
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
export function nextTargetOf(outcome: StoredOutcome | null): ProxiedRequest['target'] | null {
  if (outcome === null || outcome.kind !== 'answer') return null;
  try {
    const { nextUri } = JSON.parse(outcome.body.toString('utf8')) as { nextUri?: unknown };
    if (typeof nextUri !== 'string') return null;
    const { pathname, search } = new URL(nextUri);
    return { path: pathname, query: search === '' ? null : search.slice(1) };
  } catch {
    return null;
  }
}
