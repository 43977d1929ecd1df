/** Addresses of single objects, for links. */

/** The page of a query. */
export const queryAddress = (queryId: string): string => `/queries/${encodeURIComponent(queryId)}`;

/** The page of a cluster. */
export const clusterAddress = (name: string): string => `/clusters/${encodeURIComponent(name)}`;

/** Routing Rules with one of them. */
export const ruleAddress = (name: string): string => `/routing-rules?rule=${encodeURIComponent(name)}`;

/** The page of a routing group. */
export const groupAddress = (name: string): string => `/groups/${encodeURIComponent(name)}`;

/** The history of a cluster's queries. */
export const clusterHistoryAddress = (name: string): string => `/history?cluster=${encodeURIComponent(name)}`;

/** The history of a routing group's queries. */
export const groupHistoryAddress = (name: string): string => `/history?routingGroup=${encodeURIComponent(name)}`;
