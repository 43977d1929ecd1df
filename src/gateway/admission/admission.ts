import type { RawHeaders } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';

/** A submission whose routing group is known, before a cluster is picked. */
export interface AdmissionRequest {
  readonly decision: GroupDecision;
  readonly user: RequestUser;
  /** The client's header lines: names as sent and values in turn. */
  readonly headers: RawHeaders;
  /** Milliseconds that it has waited already, at this replica or another one: its place among those that wait; left out for 0. */
  readonly waitedMs?: number;
  /** Clusters that failed it, by name with the reason: they are no choice. Left out for none. */
  readonly excluded?: ReadonlyMap<string, string> | null;
}

/** What a submission has taken of limits; of most there is none. */
export interface QuerySlots {
  /**
   * What the trace and the log say of its wait: `group etl: 40 of 40 running (maxRunningQueries of the group); waited 4.2 s as 3rd of
   * 12 (fair by user, weight 1); admitted to etl-2`; null where it does not and did not wait.
   */
  readonly note: string | null;
  /** A cluster is about to be chosen: the slot of the one before is free for the choice. */
  beginChoice(): void;
  /**
   * Takes a slot of the cluster that was chosen.
   * @returns null, or why it is refused: no slot is free
   */
  takeCluster(cluster: ClusterEntry): Refusal | null;
  /** The cluster has accepted the query: the slots are given back when that ends. */
  bind(queryId: string, cluster: string): void;
  /** Gives them back, unless they are bound to a query; more than once without effect. */
  release(): void;
}

/** The place of a submission among those that wait at this replica for the same routing group. */
export interface QueuePosition {
  /** 1 is the next. */
  readonly position: number;
  /** How many wait, with this one. */
  readonly waiting: number;
}

/** What is known of a submission while it waits. */
export interface WaitPlace {
  /** What it waits for, for people: `group etl: 40 of 40 running (maxRunningQueries of the group)`. */
  why(): string;
  /** Null where those that wait have no order, and before the wait begins. At most a second old. */
  position(): QueuePosition | null;
  /** Moves it before all others of its group, as an administrator wants it. */
  moveFirst(): void;
}

/** The submission has to wait for its turn. */
export interface AdmissionWait {
  readonly answer: 'wait';
  /** What it has taken once it is admitted; left out for nothing. */
  readonly slots?: QuerySlots;
  /** Left out where nothing is known of it. */
  readonly place?: WaitPlace;
  /** Longest wait, milliseconds; less than 2^31. */
  readonly atMost: number;
  /**
   * How long the client's request itself is held, milliseconds; then it is answered as an engine answers for a query in
   * its queue, where this gateway can keep it. Left out for half a second.
   */
  readonly hold?: number;
  /**
   * Called where that is over and the gateway cannot keep the submission now, as the database is unavailable.
   * @returns null where it is sent on all the same, or why it is refused; left out: it is refused
   */
  readonly whenUnkept?: () => Refusal | null;
  /** What the client gets when that is over. */
  readonly late: Refusal;
  /** Called when it is refused with that. Must not throw. */
  readonly noteLate?: () => void;
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
  | { readonly answer: 'now'; readonly slots?: QuerySlots }
  | { readonly answer: 'refuse'; readonly refusal: Refusal }
  | AdmissionWait;

/**
 * Decides when a submission is sent to a cluster of its routing group (docs/architecture.md#the-way-of-a-submission).
 * Calls of kill_query and statements of transactions are not asked about: what they wait for may be waiting for them.
 */
export interface Admission {
  /** Answers at once, without I/O. */
  admit(request: AdmissionRequest): AdmissionAnswer;
  /** Counts a submission that only one cluster can take, and that never waits; null where nothing is counted. */
  countBound?(request: AdmissionRequest): QuerySlots | null;
  /** Whether a cluster may run one more query; left out where clusters have no limits. */
  hasRoom?(cluster: string): boolean;
  /**
   * What a submission would wait for if it came now, for people; null where it would be sent on, or refused. Takes nothing.
   * Left out where nothing is known.
   */
  whyItWaits?(request: AdmissionRequest): string | null;
  /** @param isSuperseded whether the coordinator of a query was replaced by a new one, and the query is lost */
  watchCoordinators?(isSuperseded: (queryId: string) => boolean): void;
}

const now: AdmissionAnswer = { answer: 'now' };

/** Admits every submission at once. */
export const admitAll: Admission = { admit: () => now };
