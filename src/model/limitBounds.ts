/** Highest limit of queries that run at a time, of a cluster, a routing group or a query limit. */
export const MOST_RUNNING_QUERIES = 1_000_000;

/** Highest limit of submissions that wait at a time. */
export const MOST_QUEUED_QUERIES = 100_000;
