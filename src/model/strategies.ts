/**
 * Strategies by which a cluster is chosen among those of a group that may take a request
 * (docs/routing.md#strategies): each name with its description. The configuration and its page derive from this;
 * `src/routing/strategies` has one for each name.
 */
export const strategies = {
  weightedRandom: 'at random by weight',
  leastLoaded: "the one with the fewest queued and running queries, the user's own queue first",
  affinity: 'the same one for the same user (or source, session, header), within its share of the load',
} as const;

/** Name of a strategy (`routing.strategy`, `routing.groups.{name}.strategy`). */
export type StrategyName = keyof typeof strategies;

/** All names, in the order in which they are documented. */
export const strategyNames = Object.keys(strategies) as StrategyName[];

/** The strategy of groups for which nothing else is configured. */
export const DEFAULT_STRATEGY = 'weightedRandom' satisfies StrategyName;

/** Share of new queries of a cluster that names none, relative to others of its group. */
export const DEFAULT_WEIGHT = 100;
