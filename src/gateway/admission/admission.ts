import type { RawHeaders } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';

/** A submission whose routing group is known, before a cluster is picked. */
export interface AdmissionRequest {
  readonly decision: GroupDecision;
  readonly user: RequestUser;
  /** The client's header lines: names as sent and values in turn. */
  readonly headers: RawHeaders;
}

/** The submission has to wait for its turn. */
export interface AdmissionWait {
  readonly answer: 'wait';
  /** Longest wait, milliseconds; less than 2^31. */
  readonly atMost: number;
  /** What the client gets when that is over. */
  readonly late: Refusal;
  /**
   * Begins the wait; called once.
   * @param signal aborts when the wait is given up: the client went away, the time is over, or the gateway stops. What the
   *   answer is after that does not matter; the place must be free for others then
   * @returns null once the submission is admitted, or why it never will be
   */
  readonly begin: (signal: AbortSignal) => Promise<Refusal | null>;
}

/** Whether a submission is sent on. */
export type AdmissionAnswer =
  | { readonly answer: 'now' }
  | { readonly answer: 'refuse'; readonly refusal: Refusal }
  | AdmissionWait;

/**
 * Decides when a submission is sent to a cluster of its routing group (docs/architecture.md#the-way-of-a-submission).
 * Calls of kill_query and statements of transactions are not asked about: what they wait for may be waiting for them.
 */
export interface Admission {
  /** Answers at once, without I/O. */
  admit(request: AdmissionRequest): AdmissionAnswer;
}

const now: AdmissionAnswer = { answer: 'now' };

/** Admits every submission at once. */
export const admitAll: Admission = { admit: () => now };
