import type { RawHeaders } from '../../model/http.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';

/** A submission with a routing group, before a cluster is picked. */
export interface AdmissionRequest {
  readonly decision: GroupDecision;
  readonly user: RequestUser;
  /** The client's header lines: names as sent and values in turn. */
  readonly headers: RawHeaders;
  /**
   * Milliseconds that it has already waited, at this replica or another one: determines its position in the queue.
   * Default: 0.
   */
  readonly waitedMs?: number;
  /** Clusters that failed it, with the reason: they are not eligible. Default: none. */
  readonly excluded?: ReadonlyMap<string, string> | null;
  /** Its body, for limits of digests. Default: it has no statement. */
  readonly body?: { readonly text: string };
  /** Size of its body. Default: 0. */
  readonly bytes?: number;
}

/** Slots that a submission has acquired; usually none. */
export interface QuerySlots {
  /**
   * Description of its wait for the trace and the log: `group etl: 40 of 40 running (maxRunningQueries of the group);
   * waited 4.2 s as 3rd of 12 (fair by user, weight 1); admitted to etl-2`; null without a wait.
   */
  readonly note: string | null;
  /** True if it may be sent to a cluster: it has its slot there, or the cluster has no limit. */
  mayUse(cluster: string): boolean;
  /**
   * Records the chosen cluster.
   * @returns null, or the rejection if it has no slot there
   */
  takeCluster(cluster: ClusterEntry): Refusal | null;
  /** Binds the slots to an accepted query: they are released when it ends. */
  bind(queryId: string, cluster: string): void;
  /** Releases the slots, unless they are bound to a query; idempotent. */
  release(): void;
  /** Binds its place to its id in the queue: any replica gives it back by `Admission.endQueued`. */
  keepPlace?(id: string): void;
}

/** Position of a submission among those queued at this replica for the same routing group. */
export interface QueuePosition {
  /** 1 is the next. */
  readonly position: number;
  /** Number of queued submissions, including this one. */
  readonly waiting: number;
}

export interface WaitPlace {
  /** Reason of the wait as text: `group etl: 40 of 40 running (maxRunningQueries of the group)`. */
  why(): string;
  /** Null if the queue is not ordered, and before the wait begins. At most a second old. */
  position(): QueuePosition | null;
  /** Moves it to the front of its group, for an administrator. */
  moveFirst(): void;
}

export interface AdmissionWait {
  readonly kind: 'wait';
  readonly slots?: QuerySlots;
  readonly place?: WaitPlace;
  /** Maximum wait, milliseconds; less than 2^31. */
  readonly atMost: number;
  /**
   * Time before the client's request receives a "queued" response like that of an engine, milliseconds, if this gateway
   * can store it. Default: half a second.
   */
  readonly hold?: number;
  /**
   * Called after that time if the gateway cannot store the submission, as the database is unavailable.
   * @returns null if it is sent anyway, or the rejection; absent: it is rejected
   */
  whenNotStored?(): Refusal | null;
  /** Counts its rejection after the maximum wait. @returns the client's response */
  late(): Refusal;
  /** Fulfilled when it is clear that it has to wait: the times begin then. Absent: they begin with the wait. */
  readonly hasToWait?: Promise<unknown>;
  /**
   * Begins the wait; called once.
   * @param signal aborts when the wait is abandoned: the client disconnected, the time is over, or the gateway stops.
   * The result is ignored then; the place must be available to others
   * @returns null once the submission is admitted, or its rejection
   */
  begin(signal: AbortSignal): Promise<Refusal | null>;
}

export type AdmissionResponse = { readonly kind: 'now'; readonly slots?: QuerySlots } | AdmissionWait;

/**
 * Decides when a submission is sent to a cluster of its routing group (docs/architecture.md#the-way-of-a-submission).
 * Excludes calls of kill_query and statements of transactions: the queries that they wait for may be waiting for them.
 */
export interface Admission {
  /** Returns synchronously, without I/O. */
  admit(request: AdmissionRequest): AdmissionResponse;
  /** Counts a submission that is bound to one cluster and never waits; null if nothing counts it. */
  admitBound?(request: AdmissionRequest, bound: BoundSubmission): Promise<QuerySlots | Refusal | null>;
  /** Returns true if a cluster has capacity for one more query; absent without limits of clusters. */
  hasCapacity?(cluster: string): boolean;
  /**
   * Describes the limits that a new submission would wait for; null if it would be sent or rejected. Acquires nothing.
   */
  whyItWaits?(request: AdmissionRequest): string | null;
  /** Records that a query began a transaction, or ended its own (null). */
  noteTransaction?(queryId: string, transactionId: string | null): void;
  /** Gives the place of a queued query back, whichever replica acquired it. */
  endQueued?(id: string): void;
  connect?(plane: AdmissionPlane): void;
}

export interface BoundSubmission {
  /** Of its transaction or of the query that it kills; null if unknown. */
  readonly cluster: string | null;
  /** Null for calls of kill_query, which are counted regardless of limits. */
  readonly transaction: string | null;
}

/** Parts of the data plane that admission asks. */
export interface AdmissionPlane {
  /** True if the coordinator of a query was replaced by a new one, and the query is lost. */
  isSuperseded(queryId: string): boolean;
  /** The cluster that the strategy of its group prefers among those with capacity, or null. */
  preferred(request: AdmissionRequest): string | null;
  /**
   * Rejects the newest queued query of the user (or source) with the most of a group, if these are more than one more
   * than the submission's has. @returns true if there is a place then
   */
  displace(group: string, fairBy: 'user' | 'source', flow: string): Promise<boolean>;
}

const now: AdmissionResponse = { kind: 'now' };

export const admitAll: Admission = { admit: () => now };
