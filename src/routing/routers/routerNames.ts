/**
 * Routers by name, in order (docs/routing.md#which-cluster-takes-a-query). Decisions, the history and the API name the
 * router that decided.
 */
export const routerNames = ['rule', 'external', 'header', 'default'] as const;

export type RouterStep = 'rules' | 'rules service';

export type RouterName = (typeof routerNames)[number];
