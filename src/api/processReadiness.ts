/** State of something the gateway uses, as `/readyz?verbose` reports it. */
export interface ComponentState {
  /** e.g. `database`, `resource source`, `history buffer`. */
  readonly name: string;
  readonly ok: boolean;
  /** Sentence for users; of a component that is unavailable: since when and why. */
  readonly message: string;
  /** Of one that is not ok: it is there, and what it holds has mistakes. Left out: it is unavailable or overloaded. */
  readonly hasMistakes?: true;
}

/**
 * True if the process takes traffic (docs/rest-api.md#probes): a snapshot is loaded and every cluster has a verdict, or
 * the grace time has passed. Never unready because of database, API server or clusters.
 */
export interface Readiness {
  /** Null when ready, otherwise what is still missing. */
  notReadyBecause(): string | null;
  /** State of each component; must not take longer than about a second and must not reject. */
  components(): Promise<readonly ComponentState[]>;
}
