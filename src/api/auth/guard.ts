import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { GatewayError } from '../../model/errors.ts';
import type { AppliedChange } from '../../operator/registry/appliedChange.ts';
import { errorAnswers } from '../schemas.ts';
import { failureAnswers } from '../webapp/envelope.ts';
import { type AuditTrail, auditCalls } from './audit.ts';
import type { Authentication } from './authentication.ts';
import { isSafeMethod, refuseForeignPages } from './browserChecks.ts';
import { type Caller, queryUserOf, withQueryUser } from './caller.ts';
import { type Access, accessOfRole, accessOfRoute, type EndpointAccess, endpointTable } from './endpointAccess.ts';
import { type PageSettings, pagesOfRoute, requirePage } from './pageGuard.ts';
import { accessInWords, rightsInWords, securityOf } from './securitySchemes.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; null without authentication. */
    caller: Caller | null;
  }
}

/** Possible response codes before a route is reached. */
const statusesOfRefusal = [401, 403, 429, 503] as const;

/**
 * Makes every route that is registered afterwards ask who calls and whether they may (docs/authentication.md#roles). A
 * route whose role no one has declared makes this throw at start.
 * @param onChange gets every change that is to become an event
 * @param pages which pages are shown to whom; null: all
 * @param trail the audit in the database, or null
 * @param mapped names by which queries of callers are known (docs/identity.md#user-mapping); null: login names
 */
export function guardRoutes(
  app: FastifyInstance,
  authentication: Authentication,
  logger: Logger,
  onChange: (change: AppliedChange) => void,
  pages: Omit<PageSettings, 'pagePermissions'> | null,
  trail: AuditTrail | null,
  mapped: ((name: string) => string | null) | null = null,
): void {
  const pageSettings = pages === null ? null : { ...pages, pagePermissions: authentication.parts.pagePermissions };
  const { names, webappReadRole, publicReads, originOf } = authentication.parts;
  const table = endpointTable(names, webappReadRole, publicReads);
  const byRoute = new Map<string, EndpointAccess>();

  app.decorateRequest('caller', null);
  app.addHook('onRoute', (route) => {
    const [method = 'GET'] = [route.method].flat();
    const access = accessOfRoute(table, method, route.url, route.config?.role);
    for (const each of [route.method].flat()) byRoute.set(`${each} ${route.url}`, access);
    if (access === 'public' || route.schema?.hide === true || authentication.isOpen) return;
    route.schema = {
      ...route.schema,
      description: [route.schema?.description, accessInWords(access, authentication)].filter(Boolean).join(' '),
      security: securityOf(authentication, method),
      response: { ...answersOf(route.url)(...statusesOfRefusal), ...responsesOf(route.schema) },
    };
  });

  const accessOf = (request: FastifyRequest) => byRoute.get(`${request.method} ${request.routeOptions.url}`);

  auditCalls(
    app,
    logger,
    (request) => request.routeOptions.config.isRead !== true && isWrite(accessOf(request), request.method),
    (request) => originOf(request.raw).address,
    onChange,
    trail,
  );

  app.addHook('onRequest', async (request, reply) => {
    const { method, headers } = request;
    if (!isSafeMethod(method) && !/^bearer /i.test(headers.authorization ?? '')) {
      refuseForeignPages(headers, originOf(request.raw).view);
    }
    const access = accessOf(request);
    if (access === undefined) throw new Error(`nobody said who may call ${method} ${request.routeOptions.url}`);
    if (access === 'public') return;
    const caller = await authentication.callerOf(request, reply);
    request.caller = mapped === null ? caller : withQueryUser(caller, mapped);
    await requireAccess(request, access);
    // Taking over fields of other managers is more than the registry's role (docs/gitops.md#who-owns-a-field).
    if (isForced(request)) await requireAccess(request, accessOfRole('ADMIN'));
    const callers = pageSettings === null ? null : pagesOfRoute(request.routeOptions.url ?? '');
    if (callers !== null && pageSettings !== null) await requirePage(caller, callers, pageSettings);
  });
}

/**
 * Rejects a call whose caller lacks an access that only some calls of its route need.
 * @throws GatewayError EG_FORBIDDEN naming the role or the right in RBAC; EG_IDENTITY_UNAVAILABLE
 */
export async function requireAccess(request: FastifyRequest, access: Access): Promise<void> {
  const caller = callerOf(request);
  if (!(await caller.permits(access))) throw accessRefusal(caller, access);
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error(`nobody was asked who calls ${request.routeOptions.url}`);
  return request.caller;
}

/** Name of who changes something; `family` where callers are not distinguished. */
export function writerOf(request: FastifyRequest, family: string): string {
  const { name, by } = callerOf(request);
  return by === 'open' ? family : name;
}

/** Whose queries the caller may see: their own; null: all, which needs ADMIN. */
export async function visibleUser(request: FastifyRequest): Promise<string | null> {
  const caller = callerOf(request);
  return (await caller.roles()).has('ADMIN') ? null : queryUserOf(caller);
}

/** True if a write asks to take over fields of other managers: `?force` or `?force=true`. */
export function isForced(request: FastifyRequest): boolean {
  const { force } = (request.query ?? {}) as { force?: unknown };
  return !isSafeMethod(request.method) && force !== undefined && force !== 'false';
}

/** Many calls of /webapp are reads by POST: they need nothing but to list. */
function isWrite(access: EndpointAccess | undefined, method: string): boolean {
  if (access === undefined || access === 'public') return false;
  return !isSafeMethod(method) && !access.resources.every(({ verb }) => verb === 'list');
}

/** Errors of /webapp come in a form of their own. */
export function answersOf(url: string): typeof errorAnswers {
  return url.startsWith('/webapp/') ? failureAnswers : errorAnswers;
}

export function responsesOf(schema: unknown): Record<string, unknown> {
  return (schema as { response?: Record<string, unknown> } | undefined)?.response ?? {};
}

function accessRefusal({ name, by }: Caller, { anyOf, resources }: Access): GatewayError {
  const needed = by === 'kubernetes' ? rightsInWords(resources) : `the role ${anyOf.join(' or ')}`;
  const what = by === 'kubernetes' ? `may not ${needed}` : `lacks ${needed}, which this call needs`;
  return new GatewayError('EG_FORBIDDEN', `${JSON.stringify(name)} ${what}.`);
}
