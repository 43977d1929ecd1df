/** A token bucket: queries per period, with a maximum `burst`. */
export interface RateLimit {
  readonly queries: number;
  readonly periodMs: number;
  readonly burst: number;
}

/**
 * A counter that a query needs a slot of: `cluster:NAME`, `group:NAME`, `limit:NAMESPACE/NAME:VALUE`, or a token:
 * `rate:NAMESPACE/NAME:VALUE`. Two demands of a key are equal.
 */
export interface SlotDemand {
  readonly key: string;
  /** Maximum number of acquired slots on all replicas; of a rate limit its burst. */
  readonly limit: number;
  /** Null or absent: the counter has slots. Otherwise it has tokens, which are not released. */
  readonly rate?: RateLimit | null;
}

export interface AcquiredSlots {
  readonly keys: readonly string[];
  /** Releases them once; further calls have no effect. */
  release(): void;
}

/** Slots of every counter, or the counters without capacity. */
export type SlotResult =
  | { readonly acquired: AcquiredSlots; readonly full: null }
  | { readonly acquired: null; readonly full: readonly string[] };

/** Counts the queries that run on all replicas against their limits. */
export interface SlotLedger {
  /**
   * Acquires a slot of every counter or none; local, without I/O. A counter that this replica has not used for a while
   * is full until the next heartbeat, which requests slots of it: report waiters with `setWaiting`.
   */
  take(demands: readonly SlotDemand[]): SlotResult;
  /** True if `take` would find a slot of this counter. */
  hasCapacity(demand: SlotDemand): boolean;
  /** Reports the number of local submissions that wait for this counter: shares follow at the next heartbeat. */
  setWaiting(demand: SlotDemand, waiting: number): void;
  /**
   * Calls the listener if slots of some counters may have become free: released, or granted.
   * @returns its removal
   */
  onCapacity(listener: (keys: readonly string[]) => void): () => void;
}
