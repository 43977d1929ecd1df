import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { isSlip, nearest } from '../../config/fields.ts';
import type { ClientView } from '../../gateway/headers/requestHeaders.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import type { VisibleQueries } from '../../store/store.ts';
import type { ApiContext } from '../apiContext.ts';
import { callAudit } from '../audit.ts';
import { malformed } from '../errors.ts';
import { errorResponses } from '../schemas.ts';
import {
  type Access,
  accessInWords,
  accessOfRole,
  accessOfRoute,
  type Caller,
  type EndpointAccess,
  endpointTable,
  openCaller,
  queryUserOf,
  rightsInWords,
  securityOf,
  withQueryUser,
} from './endpointAccess.ts';
import { pagesOf, sameText } from './users.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller; null without authentication. */
    caller: Caller | null;
    /** Namespaces of the objects that the call may list; null: all. */
    namespaces: ReadonlySet<string> | null;
    /** Rejects a call on an object that its body names, as it may not be made on every object; null: it may. */
    requireObject: ((name: string) => Promise<void>) | null;
  }
  interface FastifyContextConfig {
    /**
     * Rights in a namespace suffice: in that of the object that the path (`object`) or the body (`body`) names, of a new one in
     * `?namespace=`; or in any, for a list that has only objects of such namespaces.
     */
    inNamespace?: 'object' | 'body' | 'list';
    /** Of the route. */
    access?: EndpointAccess;
    /** Pages that call it. */
    pages?: readonly string[] | undefined;
  }
}

/** Possible response codes before a route is reached. */
const rejectionStatuses = [401, 403, 429, 503] as const;

/**
 * Makes every route that is registered afterwards ask who calls and whether they may (docs/authentication.md#roles). A
 * route whose role no one has declared makes this throw at start.
 */
export function guardRoutes(api: ApiContext): void {
  const { app, authentication, queryUser } = api;
  const { names, webappReadRole, publicReads, originOf } = authentication.parts;
  const table = endpointTable(names, webappReadRole, publicReads);
  const audit = callAudit(api);

  app.decorateRequest('caller', null);
  app.decorateRequest('namespaces', null);
  app.decorateRequest('requireObject', null);
  app.decorateRequest('changes');
  app.addHook('onRoute', (route) => {
    const [method = 'GET'] = [route.method].flat();
    const access = accessOfRoute(table, method, route.url, route.config?.role);
    const pages = pageCalls.find(([pattern]) => pattern.test(route.url))?.[1];
    route.config = { ...route.config, access, pages };
    if (access === 'public' || route.schema?.hide === true || authentication.isOpen) return;
    route.schema = {
      ...route.schema,
      description: [route.schema?.description, accessInWords(access, authentication)].filter(Boolean).join(' '),
      security: securityOf(authentication, method),
      response: { ...errorsOf(route.url, rejectionStatuses), ...responsesOf(route.schema) },
    };
  });

  app.addHook('onResponse', async (request, { statusCode: status }) => {
    if (request.is404) return;
    const isRejected = status === 401 || status === 403 || status === 429;
    if (isRejected || (status < 400 && (request.changes.length > 0 || isWrite(request)))) await audit(request, status);
  });

  app.addHook('onRequest', async (request, reply) => {
    request.changes = [];
    const { method, headers } = request;
    if (!isSafeMethod(method) && !/^bearer /i.test(headers.authorization ?? '')) {
      rejectOtherOrigins(headers, originOf(request.raw).view);
    }
    const { access, pages } = request.routeOptions.config;
    if (access === undefined) throw new Error(`nobody said who may call ${method} ${request.routeOptions.url}`);
    if (access === 'public') return;
    const caller = authentication.isOpen ? openCaller : await authentication.callerOf(request, reply);
    request.caller = queryUser === null ? caller : withQueryUser(caller, queryUser);
    if (!(await caller.permits(access))) await requireInNamespace(request, access, api);
    // Taking over fields of other managers is more than the registry's role (docs/gitops.md#who-owns-a-field).
    if (isForced(request)) await requireAccess(request, accessOfRole('ADMIN'));
    if (pages !== undefined) await requirePage(caller, pages, api);
  });
}

/**
 * Rejects a call whose caller lacks an access that only some calls of its route need.
 * @throws GatewayError EG_FORBIDDEN naming the role or the right in RBAC; EG_IDENTITY_UNAVAILABLE
 */
export async function requireAccess(request: FastifyRequest, access: Access): Promise<void> {
  const caller = callerOf(request);
  if (!(await caller.permits(access))) throw accessError(caller, access);
}

/**
 * Rejects a call unless its caller has the access in the namespaces of the call. Of an object that the body names
 * that is known only after the body is read.
 * @throws GatewayError EG_FORBIDDEN unless it has the access in a namespace of a list, or in all namespaces of an object
 */
async function requireInNamespace(request: FastifyRequest, access: Access, { operator }: ApiContext): Promise<void> {
  const caller = callerOf(request);
  const { inNamespace } = request.routeOptions.config;
  if (operator === null || inNamespace === undefined || caller.by !== 'kubernetes') throw accessError(caller, access);
  const { controller } = operator;
  const requireIn = async (wanted: Iterable<string>, isList: boolean) => {
    const all = new Set(wanted);
    const permitted = await permittedIn(caller, access, all);
    if (permitted.size === 0 || (!isList && permitted.size < all.size)) throw accessError(caller, access);
    request.namespaces = permitted;
  };
  const requireObject = (name: string, namespace?: string) => {
    const { namespace: ofNew } = request.query as { readonly namespace?: string };
    const [{ resource } = { resource: '' }] = access.resources;
    const present = namespace === undefined ? controller.namespacesOf(resource, name) : [namespace];
    return requireIn(present.length === 0 && ofNew !== undefined ? [ofNew] : present, false);
  };
  const { name = '', namespace } = request.params as { readonly name?: string; readonly namespace?: string };
  if (inNamespace === 'list') await requireIn(controller.tenancy.namespaces, true);
  else if (inNamespace === 'object') await requireObject(name, namespace);
  else request.requireObject = requireObject;
}

async function permittedIn(caller: Caller, access: Access, namespaces: Iterable<string>): Promise<Set<string>> {
  const permitted = new Set<string>();
  for (const each of namespaces) if (await caller.permits(access, each)) permitted.add(each);
  return permitted;
}

/**
 * Returns the check of an access of the caller to objects, by their namespace.
 * @param namespaces of the objects that are asked for; undefined: one without a resource
 */
export async function permissions(request: FastifyRequest, access: Access, namespaces: Iterable<string | undefined>) {
  const caller = callerOf(request);
  if (await caller.permits(access)) return () => true;
  const wanted = [...new Set(namespaces)].filter((each) => each !== undefined);
  const permitted: ReadonlySet<string | undefined> =
    caller.by === 'kubernetes' ? await permittedIn(caller, access, wanted) : new Set();
  return (namespace: string | undefined) => permitted.has(namespace);
}

/** True if a list of the call has objects of a namespace. @param namespace absent: an object without a resource */
export function mayList({ namespaces }: FastifyRequest, namespace: string | undefined): boolean {
  return namespaces === null || (namespace !== undefined && namespaces.has(namespace));
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

/**
 * Returns the queries that the caller may see: with ADMIN all, which is null; else their own, and those of clusters in namespaces in which
 * they have the rights of ADMIN.
 */
export async function visibleQueries(request: FastifyRequest, api: ApiContext): Promise<VisibleQueries | null> {
  const caller = callerOf(request);
  if ((await caller.roles()).has('ADMIN')) return null;
  const namespaces = request.namespaces ?? api.operator?.controller.tenancy.namespaces ?? [];
  const mayChange = await permissions(request, accessOfRole('ADMIN'), namespaces);
  const ofCaller = api.inventory().filter(({ routable, resource }) => routable && mayChange(resource?.namespace));
  const clusters = new Set(ofCaller.map(({ name }) => name));
  const groups = [...api.table.current.groups].flatMap(([group, members]) =>
    members.length > 0 && members.every(({ name }) => clusters.has(name)) ? [group] : [],
  );
  return { user: queryUserOf(caller), clusters: [...clusters], groups };
}

/** Filter of the queries that the caller may see. */
export async function visibleFilter(request: FastifyRequest, api: ApiContext) {
  const visible = await visibleQueries(request, api);
  if (visible === null) return {};
  return { visibleTo: visible, ...(visible.clusters.length === 0 ? { user: visible.user } : {}) };
}

/** True if a query is among those that a caller may see. */
export function isVisible(
  visible: VisibleQueries | null,
  query: { readonly user: string | null; readonly cluster: string | null; readonly routingGroup: string | null },
): boolean {
  if (visible === null || query.user === visible.user) return true;
  return query.cluster ? visible.clusters.includes(query.cluster) : visible.groups.includes(query.routingGroup ?? '');
}

/** True if a write asks to take over fields of other managers: `?force` or `?force=true`. */
export function isForced(request: FastifyRequest): boolean {
  const { force } = (request.query ?? {}) as { force?: unknown };
  return !isSafeMethod(request.method) && force !== undefined && force !== 'false';
}

/** True if a call may change something. Many calls of /webapp are reads by POST: they need nothing but to list. */
function isWrite({ method, routeOptions: { config } }: FastifyRequest): boolean {
  const { access, isRead = false } = config;
  if (isRead || access === undefined || access === 'public') return false;
  return !isSafeMethod(method) && !access.resources.every(({ verb }) => verb === 'list');
}

/** Descriptions of error responses; those of /webapp have another form. */
export function errorsOf(url: string, statuses: readonly number[]): Record<string, unknown> {
  return errorResponses(url.startsWith('/webapp/'), statuses);
}

export function responsesOf(schema: unknown): Record<string, unknown> {
  return (schema as { response?: Record<string, unknown> } | undefined)?.response ?? {};
}

function accessError({ name, by }: Caller, { anyOf, resources }: Access): GatewayError {
  const needed = by === 'kubernetes' ? rightsInWords(resources) : `the role ${anyOf.join(' or ')}`;
  const what = by === 'kubernetes' ? `may not ${needed}` : `lacks ${needed}, which this call needs`;
  return new GatewayError('EG_FORBIDDEN', `${JSON.stringify(name)} ${what}.`);
}

/** Pages that make a call, by its route; a call that is not here belongs to no page (docs/authentication.md#pages). */
const pageCalls: readonly (readonly [pattern: RegExp, pages: readonly string[]])[] = [
  [/^\/webapp\/getDistribution$/, ['dashboard']],
  [/^\/api\/overview(\/|$)/, ['dashboard']],
  [/^\/webapp\/getAllBackends$/, ['cluster', 'dashboard', 'history']],
  [/^\/webapp\/(save|update|delete)Backend$/, ['cluster']],
  [/^\/webapp\/findQueryHistory$/, ['history']],
  [/^\/api\/history\/search$/, ['history']],
  [/^\/api\/queries(\/export)?$/, ['history']],
  [/^\/api\/statistics$/, ['dashboard', 'history']],
  [/^\/api\/(digests|estimates|quarantine)(\/|$)/, ['workload']],
  [/^\/api\/replays(\/|$)/, ['replays']],
  [/^\/webapp\/(get|update)RoutingRules$/, ['routing-rules']],
  [/^\/api\/(rules|ruleHits)(\/|$)/, ['routing-rules']],
  [/^\/api\/(groups|limits)(\/|$)/, ['limits']],
  [/^\/api\/queue(\/|$)/, ['queue']],
  [/^\/api\/audit$/, ['audit']],
  [/^\/api\/queries\/running(\/|$)/, ['queue']],
  [/^\/webapp\/[a-z]+ResourceGroup$/, ['resource-group', 'selector']],
  [/^\/webapp\/[a-z]+(Selector|ExactMatchSourceSelector)$/, ['selector', 'resource-group']],
  [/^\/webapp\/[a-z]+GlobalProperty$/, ['resource-group', 'selector']],
  [/^\/api\/resourcegroups\/(explain|declared)$/, ['resource-group', 'selector']],
];

/**
 * Rejects a call of pages of which the caller sees none.
 * @throws GatewayError EG_FORBIDDEN naming the pages and the key
 */
async function requirePage(caller: Caller, pages: readonly string[], { ui, authentication }: ApiContext) {
  const { disablePages: disabled } = ui;
  const { pagePermissions } = authentication.parts;
  const hasPermissions = Object.keys(pagePermissions).length > 0;
  if ((disabled.length === 0 && !hasPermissions) || ui.hiddenPageCalls === 'allow') return;
  const enabled = pages.filter((page) => !disabled.includes(page));
  if (enabled.length === 0) throw hidden(pages, 'uiConfiguration.disablePages switches it off');
  const permitted = hasPermissions ? pagesOf(await caller.roles(), pagePermissions) : [];
  if (permitted.length > 0 && !enabled.some((page) => permitted.includes(page)))
    throw hidden(enabled, `pagePermissions does not give it to ${JSON.stringify(caller.name)}`);
}

function hidden(pages: readonly string[], why: string): GatewayError {
  return new GatewayError('EG_FORBIDDEN', `This call belongs to the page ${pages.join(' or ')}: ${why}.`);
}

/** True if a method is one that changes nothing (RFC 9110 §9.2.1). */
export function isSafeMethod(method: string): boolean {
  return method === 'GET' || method === 'HEAD' || method === 'OPTIONS' || method === 'TRACE';
}

/** True if a browser sent the request: those name the way of fetching, and scripts cannot take that away. */
export function isBrowser(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-mode'] !== undefined;
}

/**
 * Rejects a call that a page of another site makes a browser send. Programs send neither header and pass.
 * @throws GatewayError EG_FORBIDDEN
 */
function rejectOtherOrigins(headers: IncomingHttpHeaders, view: ClientView): void {
  const site = headers['sec-fetch-site'];
  const { origin } = headers;
  const own =
    site === undefined ? origin === undefined || isOwnOrigin(origin, view) : site === 'same-origin' || site === 'none';
  if (own) return;
  throw new GatewayError('EG_FORBIDDEN', `Calls from pages of ${origin ?? 'another site'} are not accepted.`);
}

/**
 * Rejects a write whose only credential is a cookie unless it repeats the session's token in a header.
 * @throws GatewayError EG_FORBIDDEN naming the header
 */
export function requireTokenHeader(
  headerValue: string | undefined,
  csrfToken: string,
  header: string,
  cookie: string,
): void {
  if (headerValue !== undefined && sameText(headerValue, csrfToken)) return;
  const message = `Calls by cookie must send the value of the cookie ${cookie} in the header ${header}.`;
  throw new GatewayError('EG_FORBIDDEN', message);
}

/**
 * A proxy before the gateway may end TLS without a header that states so, hence the default ports count as the same.
 */
function isOwnOrigin(origin: string, view: ClientView): boolean {
  const url = URL.parse(origin);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  const port = (number: number) => (number === 443 ? 80 : number);
  const originPort = url.port === '' ? 80 : Number(url.port);
  return url.hostname === view.host.toLowerCase() && port(originPort) === port(view.port);
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Names of the query parameters of a call of the REST API. Left out: others are accepted. */
    queryParameters?: readonly string[];
  }
}

const MAX_REPORTED = 5;

/**
 * Rejects query parameters that a call of the REST API does not know; to be called before its routes are registered. Pages,
 * logins, probes and metrics accept others, which browsers, providers and monitoring systems add.
 */
export function rejectUnknownParameters(app: FastifyInstance, names: ProductNames): void {
  const families = ['/api', '/gateway', '/webapp', '/entity', `/${names.pathSegment}`, `${names.gatewayPath}/api`];
  app.addHook('onRoute', (route) => {
    if (!families.some((family) => route.url === family || route.url.startsWith(`${family}/`))) return;
    const { properties = {} } = (route.schema?.querystring ?? {}) as { readonly properties?: object };
    route.config = { ...route.config, queryParameters: Object.keys(properties) };
    route.schema = {
      ...route.schema,
      response: { ...errorsOf(route.url, [400]), ...responsesOf(route.schema) },
    };
  });
  app.addHook('preValidation', async (request) => {
    const parameters = request.routeOptions.config.queryParameters;
    if (parameters === undefined) return;
    const problems = Object.keys(request.query as object)
      .filter((name) => !parameters.includes(name))
      .slice(0, MAX_REPORTED)
      .map((name) => ({ field: name, message: `is not a query parameter of this call; ${hint(name, parameters)}` }));
    if (problems.length > 0) throw malformed(problems);
  });
}

function hint(name: string, parameters: readonly string[]): string {
  const near = nearest(name, parameters);
  if (near === null) return 'it has none';
  return isSlip(name, near) ? `did you mean ${near}?` : `the nearest one is ${near}`;
}
