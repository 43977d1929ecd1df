/** Maximum limit of concurrent queries, of a cluster, a routing group or a query limit. */
export const MAX_RUNNING_QUERIES = 1_000_000;

export const MAX_QUEUED_QUERIES = 100_000;
