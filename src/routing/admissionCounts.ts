/** How much of a routing group or a query limit is used, on all replicas together. */
export interface AdmissionCount {
  /** Queries that run; null where no limit counts them. */
  readonly running: number | null;
  /** Submissions that wait. */
  readonly waiting: number;
  /** Submissions refused since the counter began; of a limit that only observes, those that it would have refused. */
  readonly refused: number;
}

/** What statuses and the REST API show of how limits are used. */
export interface AdmissionCounts {
  /** Of a routing group by its name; null: not known. */
  group(name: string): AdmissionCount | null;
  /** Of a query limit by the key of its policy, over all of its counters; null: not known. */
  limit(key: string): AdmissionCount | null;
  /**
   * Registers a listener that is called when counts have changed, at most once in ten seconds; the answer removes it.
   * Must not throw.
   */
  onChange(listener: () => void): () => void;
}

/** Counts of a gateway that counts nothing. */
export const noCounts: AdmissionCounts = {
  group: () => null,
  limit: () => null,
  onChange: () => () => undefined,
};
