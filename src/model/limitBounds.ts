/** Maximum limit of concurrent queries, of a cluster, a routing group or a query limit. */
export const MOST_RUNNING_QUERIES = 1_000_000;

/** Maximum limit of queued submissions. */
export const MOST_QUEUED_QUERIES = 100_000;
