/**
 * Strategies that choose one of a group's eligible clusters (docs/routing.md#strategies): name and description. The
 * configuration and its page derive from this; `src/routing/strategies` implements each.
 */
export const strategies = {
  weightedRandom: 'at random by weight',
  leastLoaded: "the one with the fewest queued and running queries, the user's own queue first",
  affinity: 'the same one for the same user (or source, session, header), within its share of the load',
} as const;

export type StrategyName = keyof typeof strategies;

/** All names, in the order of the documentation. */
export const strategyNames = Object.keys(strategies) as StrategyName[];

/** The default strategy. */
export const DEFAULT_STRATEGY = 'weightedRandom' satisfies StrategyName;

/** Default share of a cluster's new queries, relative to others of its group. */
export const DEFAULT_WEIGHT = 100;
