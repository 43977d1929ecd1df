/** Time source; injected for tests. */
export interface Clock {
  /** Wall clock, milliseconds since 1970-01-01T00:00:00Z. May jump when the machine's clock is set. */
  now(): number;
  /** Milliseconds from an arbitrary start; never goes back. For durations and deadlines. */
  monotonic(): number;
}

export const systemClock: Clock = {
  now: Date.now,
  monotonic: performance.now.bind(performance),
};

/** A number in [0, 1), as `Math.random`; injected for tests. */
export type Random = () => number;
