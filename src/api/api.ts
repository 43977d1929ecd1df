import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import Fastify, { type FastifySchema } from 'fastify';
import type { TSchema } from 'typebox';
import { compileCheck } from '../model/validation.ts';
import type { ApiContext, ApiParts, ComponentState, StoreContext } from './apiContext.ts';
import { auditRoutes } from './audit.ts';
import { securitySchemes } from './auth/endpointAccess.ts';
import { guardRoutes, rejectUnknownParameters } from './auth/guard.ts';
import { configurationRoute, loginRoutes, pageRoutes } from './auth/loginRoutes.ts';
import { clusterRoutes, heldDeletionRoutes } from './clusters.ts';
import { errorHandler, malformed } from './errors.ts';
import { eventRoutes, versionBeside, versionOfText } from './events.ts';
import { explainRoute, queryDetailsRoute } from './explain.ts';
import { groupExplainRoute } from './groupExplain.ts';
import { historyRoutes, searchRoutes, viewRoutes } from './history.ts';
import { impactRoutes } from './impact.ts';
import { limitRoutes } from './limits.ts';
import { collectOpenapi, openapiRoute } from './openapi.ts';
import { overviewRoutes } from './overview/overviewRoutes.ts';
import { healthRoutes, jwksRoutes, measureCalls, metricsRoutes, registerMetrics } from './probes.ts';
import { queryRoutes, queueLister, queueRoutes, runningQueryRoutes } from './queries.ts';
import { backendRoutes, publicRoutes, registryRoutes } from './registry.ts';
import { readBodies } from './requestBody.ts';
import { declaredGroupsRoute, entityRoutes, resourceGroupRoutes, webappGroupRoutes } from './resourceGroups.ts';
import { ruleRoutes, webappRuleRoutes } from './rules.ts';
import { indexPage, respondUnserved, userInterfaceRoutes } from './userInterface.ts';

/** The REST API as a handler for a `node:http` server that others share. */
export interface Api {
  /** Responds to every request it is given; 404 for paths that are not the API's. */
  handler(request: IncomingMessage, response: ServerResponse): void;
  /** Waits for running calls; later ones get a response 503. */
  close(): Promise<void>;
}

/** Makes the API: one Fastify instance without its own server, to which each family of routes is added. */
export async function createApi(parts: ApiParts): Promise<Api> {
  const { names, version, bodyLimit, metrics, logger, authentication, readiness } = parts;
  const onError = errorHandler(logger);
  const app = Fastify({
    bodyLimit,
    genReqId: () => randomUUID(),
    frameworkErrors: onError,
    rewriteUrl: ({ url = '' }) => names.ownTarget(url),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096 },
  });

  app.setErrorHandler(onError);
  readBodies(app, parts.bodies, bodyLimit);
  // Query and path are checked here; bodies by the routes, whose messages know the fields. Responses are not rewritten.
  app.setValidatorCompiler<FastifySchema & TSchema>(({ schema, httpPart }) => {
    if (httpPart === 'body' || httpPart === 'headers') return () => true;
    const check = compileCheck(schema);
    return (value: unknown) => {
      const checked = check(value);
      return checked.ok ? true : { error: malformed(checked.problems) };
    };
  });
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));

  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'X-Request-Id': request.id, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
  });
  // An open API is visible in what is ready.
  const components = async () => [...(await readiness.components()), authentication.state()];
  const api: ApiContext = {
    ...{ ...parts, app },
    readiness: { notReadyBecause: () => readiness.notReadyBecause(), components },
  };
  respondUnserved(api);
  registerMetrics(metrics, parts.table, version);
  measureCalls(app, metrics);
  rejectUnknownParameters(app, names);
  guardRoutes(api);
  await collectOpenapi(app, names.product, version, securitySchemes(authentication));
  addRoutes(api);
  await app.ready();
  return { handler: (request, response) => app.routing(request, response), close: () => app.close() };
}

function addRoutes(api: ApiContext): void {
  const { operator, rules, resourceGroups, store } = api;
  loginRoutes(api);
  pageRoutes(api);
  registryRoutes(api);
  clusterRoutes(api);
  publicRoutes(api);
  healthRoutes(api);
  metricsRoutes(api);
  if (operator !== null) {
    heldDeletionRoutes(api, operator.controller);
    limitRoutes(api, operator.limits);
  }
  if (api.publishedKeys !== null) jwksRoutes(api, api.publishedKeys);
  if (resourceGroups !== null) {
    resourceGroupRoutes(api, resourceGroups);
    groupExplainRoute(api, resourceGroups);
    entityRoutes(api, resourceGroups);
    declaredGroupsRoute(api, resourceGroups);
  }
  if (store !== null) storeRoutes({ ...api, store });
  if (rules !== null) {
    webappRuleRoutes(api, rules.routingRules);
    if (store !== null) ruleRoutes({ ...api, store }, rules.routingRules);
    impactRoutes(api, rules);
    explainRoute(api, rules);
  }
  eventRoutes(api, topicsOf(api));
  userInterfaceRoutes(api);
  indexPage(api);
  openapiRoute(api);
}

function storeRoutes(api: StoreContext): void {
  const listQueue = queueLister(api);
  backendRoutes(api);
  historyRoutes(api);
  searchRoutes(api);
  overviewRoutes(api);
  configurationRoute(api);
  viewRoutes(api);
  if (api.resourceGroups !== null) webappGroupRoutes(api, api.resourceGroups);
  runningQueryRoutes(api);
  auditRoutes(api);
  queueRoutes(api, listQueue);
  queryRoutes(api);
  queryDetailsRoute(api, listQueue);
}

/** Versions of the lists that are served, and of what the gateway lacks. */
function topicsOf({ readiness, inventoryStateVersion, rules, operator, store }: ApiContext) {
  const limits =
    operator === null ? {} : { groups: () => operator.limits.version(), limits: () => operator.limits.version() };
  return {
    health: versionBeside(async () => troubleText(await readiness.components())),
    clusters: inventoryStateVersion,
    ...(rules === null ? {} : { rules: () => rules.routingRules.inventoryVersion() }),
    ...limits,
    ...(store === null ? {} : { queue: versionOfText(() => store.queuedQueries.listVersion()) }),
  };
}

/** Which components are in trouble; their messages change each second. */
function troubleText(components: readonly ComponentState[]): string {
  return components
    .filter(({ ok }) => !ok)
    .map(({ name, hasMistakes = false }) => `${name} ${hasMistakes}`)
    .join();
}
