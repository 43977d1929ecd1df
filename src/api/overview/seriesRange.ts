export interface SeriesRange {
  /** Milliseconds since 1970. */
  readonly now: number;
  readonly minutes: number;
}

/** Its intervals. Times in milliseconds since 1970. */
export interface SeriesIntervals {
  readonly from: number;
  /** End of the interval that is running. */
  readonly to: number;
  /** Whole minutes, in milliseconds. */
  readonly intervalMs: number;
  readonly length: number;
}

const MINUTE = 60_000;

/** Cuts a range into intervals of whole minutes; the last one is not over yet. @param most intervals */
export function seriesRange({ now, minutes }: SeriesRange, most: number): SeriesIntervals {
  const intervalMs = MINUTE * Math.ceil(minutes / most);
  // The interval that is running belongs to the range; as many before it as the range holds.
  const to = (Math.floor(now / intervalMs) + 1) * intervalMs;
  const length = Math.ceil((minutes * MINUTE) / intervalMs);
  return { from: to - length * intervalMs, to, intervalMs, length };
}
