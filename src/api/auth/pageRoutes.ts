import { UiConfiguration, UsablePages } from '../answers/session.ts';
import { type RouteContext, routes } from '../routes.ts';
import type { Authentication } from './authentication.ts';
import { accessOfRoute, endpointTable } from './endpointAccess.ts';
import { callerOf } from './guard.ts';

const mainCalls: Readonly<Record<string, readonly [method: string, url: string]>> = {
  dashboard: ['GET', '/api/overview'],
  cluster: ['GET', '/api/clusters'],
  history: ['POST', '/api/history/search'],
  // Callers that may not list rules can explain their own requests there.
  'routing-rules': ['POST', '/api/explain'],
  limits: ['GET', '/api/groups'],
  queue: ['GET', '/api/queue'],
  audit: ['GET', '/api/audit'],
  'resource-group': ['POST', '/webapp/findResourceGroup'],
};

/** The web application's configuration (`uiConfiguration`). */
export function configurationRoute(api: RouteContext, disablePages: readonly string[]): void {
  routes(api, 'web application: configuration', 'envelope')('GET', '/webapp/getUIConfiguration', {
    summary: 'Shows which pages are switched off',
    returns: ['The configuration.', UiConfiguration],
    handle: (): UiConfiguration => (disablePages.length === 0 ? {} : { disablePages: [...disablePages] }),
  });
}

/** Which pages the caller has the role, or the rights, for (docs/authentication.md#pages). */
export function pageRoutes(api: RouteContext, { parts }: Authentication): void {
  const table = endpointTable(parts.names, parts.webappReadRole, parts.publicReads);
  const accesses = Object.entries(mainCalls).map(
    ([page, [method, url]]) => [page, accessOfRoute(table, method, url, undefined)] as const,
  );

  routes(api, 'login')('GET', '/api/pages', {
    summary: 'Lists the pages that the caller may use',
    description: 'By role or rights alone: `/userinfo` and `/webapp/getUIConfiguration` say what is hidden.',
    returns: ['Names of the pages.', UsablePages],
    errors: [503],
    handle: async ({ request }): Promise<UsablePages> => {
      const caller = callerOf(request);
      const pages: string[] = [];
      for (const [page, access] of accesses)
        if (access === 'public' || (await caller.permits(access))) pages.push(page);
      return { pages };
    },
  });
}
