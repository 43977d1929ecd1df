/** Usage of a routing group or a query limit, total of all replicas. */
export interface AdmissionCount {
  /** Running queries; null if no limit counts them. */
  readonly running: number | null;
  readonly waiting: number;
  /**
   * Rejected submissions since the counter began; for a limit that only observes, submissions that it would have
   * rejected.
   */
  readonly refused: number;
}

/** Usage of limits, for statuses and the REST API. */
export interface AdmissionCounts {
  /** Usage of a routing group by name; null if unknown. */
  group(name: string): AdmissionCount | null;
  /** Running queries that count against the limit of a cluster; null if unknown, or without a limit. */
  cluster(name: string): number | null;
  /** Usage of a query limit by the key of its policy, over all of its counters; null if unknown. */
  limit(key: string): AdmissionCount | null;
  /**
   * Registers a listener for changed counts, called at most once in ten seconds; returns its removal. Must not throw.
   */
  onChange(listener: () => void): () => void;
}

export const noCounts: AdmissionCounts = {
  group: () => null,
  cluster: () => null,
  limit: () => null,
  onChange: () => () => undefined,
};
