/**
 * Routers by name, in the order in which they are asked (docs/routing.md#which-cluster-takes-a-query). Decisions, the
 * history and the API name the router that decided.
 */
export const routerNames = ['rule', 'external', 'header', 'default'] as const;

/** Steps of routers in traces of requests. */
export type RouterStep = 'rules' | 'rules service';

/** Name of a router. */
export type RouterName = (typeof routerNames)[number];
