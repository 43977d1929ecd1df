/** A token bucket: so many in a period, and at most `burst` at once. */
export interface RateLimit {
  readonly queries: number;
  readonly periodMs: number;
  readonly burst: number;
}

/**
 * One counter that a query needs a slot of: `cluster:NAME`, `group:NAME`, `limit:NAMESPACE/NAME:VALUE`, or a token:
 * `rate:NAMESPACE/NAME:VALUE`. Two demands of a key are equal.
 */
export interface SlotDemand {
  readonly key: string;
  /** Most slots that may be taken at a time, on all replicas; of a rate limit its burst. */
  readonly limit: number;
  /** Null or left out: the counter has slots. Otherwise it has tokens, which are not given back. */
  readonly rate?: RateLimit | null;
}

/** Slots that a query has taken; given back once. */
export interface TakenSlots {
  readonly keys: readonly string[];
  /** Gives them back; without effect from the second time on. */
  release(): void;
}

/** Slots of every counter, or none and the counters that have no room here. */
export type SlotAnswer =
  | { readonly taken: TakenSlots; readonly full: null }
  | { readonly taken: null; readonly full: readonly string[] };

/** Counts the queries that run on all replicas against their limits. */
export interface SlotLedger {
  /**
   * Takes a slot of every counter or none; local, without I/O. A counter that this replica has not used for a while is
   * full until the next beat, which asks for slots of it: say with `setWaiting` that somebody waits.
   */
  take(demands: readonly SlotDemand[]): SlotAnswer;
  /** Whether `take` would find a slot of this counter. */
  hasRoom(demand: SlotDemand): boolean;
  /** Says how many submissions of this replica wait and need this counter: shares follow it at the next beat. */
  setWaiting(demand: SlotDemand, waiting: number): void;
  /**
   * Calls the listener when slots of some counters may have become free: given back, or granted.
   * @returns ends that
   */
  onRoom(listener: (keys: readonly string[]) => void): () => void;
}
