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

/**
 * Form of a request key: user, source, session, or header:NAME with the characters of a field name (RFC 9110 §5.6.2).
 * Valid in RE2 too, as the API server compiles it.
 */
export const REQUEST_KEY_FORM = "^(user|source|session|header:[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128})$";

/** Form of the name of a header. */
export const HEADER_NAME_FORM = "^[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128}$";
