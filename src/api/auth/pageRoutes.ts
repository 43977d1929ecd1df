import type { FastifyInstance } from 'fastify';
import { UsablePages } from '../answers/session.ts';
import { answer, errorAnswers } from '../schemas.ts';
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

/** Which pages the caller has the role, or the rights, for (docs/authentication.md#pages). */
export async function pageRoutes(app: FastifyInstance, authentication: Authentication): Promise<void> {
  const { names, webappReadRole, publicReads } = authentication.parts;
  const table = endpointTable(names, webappReadRole, publicReads);
  const accesses = Object.entries(mainCalls).map(
    ([page, [method, url]]) => [page, accessOfRoute(table, method, url, undefined)] as const,
  );

  app.get(
    '/api/pages',
    {
      schema: {
        tags: ['login'],
        summary: 'Lists the pages that the caller may use',
        description: 'By role or rights alone: `/userinfo` and `/webapp/getUIConfiguration` say what is hidden.',
        response: { 200: answer('Names of the pages.', UsablePages), ...errorAnswers(401, 403, 503) },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const pages: string[] = [];
      for (const [page, access] of accesses)
        if (access === 'public' || (await caller.permits(access))) pages.push(page);
      return reply.send({ pages } satisfies UsablePages);
    },
  );
}
