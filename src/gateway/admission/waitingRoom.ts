import type { Attempt } from '../../admission/fairQueue.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait, QueuePosition } from './admission.ts';

/** A submission that has to wait. */
export interface WaitingSubmission {
  /** Routing group that it waits for. */
  readonly group: string;
  /** Whose turn it takes: a user or a source. */
  readonly flow: string;
  /** Share of that flow. */
  readonly weight: number;
  /** How long the client's request itself may wait, milliseconds. */
  readonly holdMs: number;
  /** How long it may wait where the gateway keeps it, milliseconds. */
  readonly maxWaitMs: number;
  /** Milliseconds that it has waited before, at this replica or another one. */
  readonly waitedMs: number;
  /**
   * Tries to take what it needs: all of it, or nothing.
   * @param full counters that others of this round have met full; those that this one meets are added
   * @returns `full`: nobody else of its group has a chance now
   */
  tryTake(full: Set<string>): Attempt;
  /** Notes its place when the wait began; null where too many wait for it to be counted. */
  noteEntry(position: QueuePosition | null): void;
  /** Notes that an administrator moved it before all others. */
  noteMoved(): void;
  /** What it waits for. */
  why(): string;
  /** Why it still waits, for the client: the limit, and what to do. */
  refusal(): Refusal;
  /** Takes what it needs whatever the limits say: the database is unavailable, and the configuration says so. */
  takeAnyway(): boolean;
}

/** Where submissions wait that limits do not admit yet. */
export interface WaitingRoom {
  /** How a submission waits; it takes its place when that begins. */
  wait(
    submission: WaitingSubmission,
  ): Pick<AdmissionWait, 'place' | 'atMost' | 'hold' | 'late' | 'whenUnkept' | 'begin'>;
  /** Whether anybody waits for a routing group: those that come now must not overtake them. */
  hasQueue(group: string): boolean;
  /** Slots may have become free: admits those whose turn it is. */
  admit(): void;
}
