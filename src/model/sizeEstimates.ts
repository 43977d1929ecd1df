/** Classes of queries by what they are expected to take. */
export const sizeClassNames = ['S', 'M', 'L'] as const;
export type SizeClass = (typeof sizeClassNames)[number];

/** Borders between the classes, of the durations or of the processor time of queries (`sizeClasses`). */
export interface SizeBorders {
  readonly measure: 'elapsed' | 'cpu';
  /** Milliseconds. */
  readonly mediumFrom: number;
  readonly largeFrom: number;
}

/** The class of a duration or processor time, milliseconds. */
export function sizeClassOf({ mediumFrom, largeFrom }: SizeBorders, milliseconds: number): SizeClass {
  if (milliseconds < mediumFrom) return 'S';
  return milliseconds < largeFrom ? 'M' : 'L';
}

/** Expected figures of a query: 90 % of its runs took at most these. Figures are null if no run reported them. */
export interface SizeEstimate {
  readonly sizeClass: SizeClass | 'unknown';
  readonly seconds: number | null;
  readonly cpuSeconds: number | null;
  readonly peakMemoryBytes: number | null;
  /** Share of its runs with this class, as if there had been two further runs with another one: 0 to 1. */
  readonly confidence: number;
  /** Runs of the exact statement, runs of its shape, or no runs. */
  readonly source: 'exact' | 'shape' | 'none';
  readonly runs: number;
}

export const noEstimate: SizeEstimate = Object.freeze({
  ...({ sizeClass: 'unknown', seconds: null, cpuSeconds: null, peakMemoryBytes: null } as const),
  ...({ confidence: 0, source: 'none', runs: 0 } as const),
});

/** Estimates by digest, as plain data. */
export interface EstimateTable {
  /** Time up to which runs are counted, milliseconds since 1970; 0 before the first refresh. */
  readonly until: number;
  readonly exact: ReadonlyMap<string, SizeEstimate>;
  readonly shapes: ReadonlyMap<string, SizeEstimate>;
}

type Digests = Readonly<Record<'exact' | 'shape', string>>;

/** Returns the estimate of a statement: of its exact digest, else of its shape. */
export function estimateIn({ exact, shapes }: EstimateTable, digests: Digests): SizeEstimate {
  return exact.get(digests.exact) ?? shapes.get(digests.shape) ?? noEstimate;
}

/** The current estimates of a replica (docs/size-classes.md). */
export class SizeEstimates {
  table: EstimateTable;
  /** True if a rule or a limit read an estimate: queries are then recorded with theirs. */
  isRead = false;

  constructor(table: EstimateTable = { until: 0, exact: new Map(), shapes: new Map() }) {
    this.table = table;
  }

  /** Returns the estimate of a statement for a decision. */
  read(digests: Digests): SizeEstimate {
    this.isRead = true;
    return estimateIn(this.table, digests);
  }
}
