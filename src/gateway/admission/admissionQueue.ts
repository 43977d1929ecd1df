import type { Attempt } from '../../admission/fairQueue.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait, QueuePosition } from './admission.ts';

export interface WaitingSubmission {
  readonly group: string;
  /** Fairness key: a user or a source. */
  readonly flow: string;
  readonly weight: number;
  /** Maximum wait of the client's request, milliseconds. */
  readonly holdMs: number;
  /** Maximum wait of a stored submission, milliseconds. */
  readonly maxWaitMs: number;
  /** Milliseconds that it waited before, at this replica or another one. */
  readonly waitedMs: number;
  /**
   * Tries to acquire all of its slots, or nothing.
   * @param full counters known to be full in this round; adds further ones
   * @returns `full`: no other submission of its group has a chance now
   */
  tryTake(full: Set<string>): Attempt;
  /** Records its initial position; null if too many wait for it to be counted. */
  noteEntry(position: QueuePosition | null): void;
  /** Records that an administrator moved it to the front. */
  noteMoved(): void;
  why(): string;
  /** Rejection for the client: the limit, and the action to take. */
  refusal(): Refusal;
  /** Acquires its slots regardless of limits: the database is unavailable, and the configuration allows it. */
  takeAnyway(): boolean;
}

/** Queue of submissions that limits do not admit yet. */
export interface AdmissionQueue {
  /** Queues a submission; it enters when the wait begins. */
  wait(
    submission: WaitingSubmission,
  ): Pick<AdmissionWait, 'place' | 'atMost' | 'hold' | 'late' | 'whenNotStored' | 'begin'>;
  /** True if a routing group has queued submissions: new ones must not overtake them. */
  hasQueue(group: string): boolean;
  /** Admits submissions after slots may have become free. */
  admit(): void;
}
