import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import Fastify, { type FastifyInstance, type FastifySchema } from 'fastify';
import { Counter, Histogram, type Registry } from 'prom-client';
import type { TSchema } from 'typebox';
import {
  announcedLength,
  endWith,
  isUnfinished,
  memoryMessage,
  type RequestBodies,
} from '../gateway/bodies/requestBodies.ts';
import { GatewayError } from '../model/errors.ts';
import { compileCheck } from '../model/validation.ts';
import type { ApiContext, ApiParts, ComponentState, StoreContext } from './apiContext.ts';
import { auditRoutes } from './audit.ts';
import { securitySchemes } from './auth/endpointAccess.ts';
import { guardRoutes, rejectUnknownParameters } from './auth/guard.ts';
import { configurationRoute, loginRoutes, pageRoutes } from './auth/loginRoutes.ts';
import { clusterRoutes, heldDeletionRoutes } from './clusters.ts';
import { digestRoutes } from './digests.ts';
import { errorHandler, malformed } from './errors.ts';
import { estimateRoutes } from './estimates.ts';
import { eventRoutes, versionBeside, versionOfText } from './events.ts';
import { explainRoute, queryDetailsRoute } from './explain.ts';
import { groupExplainRoute } from './groupExplain.ts';
import { historyRoutes, searchRoutes, viewRoutes } from './history.ts';
import { impactRoutes } from './impact.ts';
import { limitRoutes } from './limits.ts';
import { collectOpenapi, openapiRoute } from './openapi.ts';
import { overviewRoutes } from './overview/overviewRoutes.ts';
import { healthRoutes, jwksRoutes, metricsRoutes, registerMetrics } from './probes.ts';
import { queryRoutes, queueLister, queueRoutes, runningQueryRoutes } from './queries.ts';
import { queryEventRoute } from './queryEvents.ts';
import { backendRoutes, publicRoutes, registryRoutes } from './registry.ts';
import { replayRoutes } from './replays.ts';
import { declaredGroupsRoute, entityRoutes, resourceGroupRoutes, webappGroupRoutes } from './resourceGroups.ts';
import { rolloutRoutes } from './rollouts.ts';
import { ruleRoutes, webappRuleRoutes } from './rules.ts';
import { indexPage, unservedResponder, userInterfaceRoutes } from './userInterface.ts';

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
    rewriteUrl: ({ url = '' }) => {
      const segment = names.pathSegments.find((each) => url.startsWith(each));
      return segment === undefined ? url : `/${names.pathSegment}/${url.slice(segment.length)}`;
    },
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

  // An open API is visible in what is ready.
  const components = async () => [...(await readiness.components()), authentication.state()];
  const api: ApiContext = {
    ...{ ...parts, app },
    readiness: { notReadyBecause: () => readiness.notReadyBecause(), components },
  };
  const respondUnserved = unservedResponder(api);
  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'X-Request-Id': request.id, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
    if (request.is404) return respondUnserved(request, reply);
  });
  registerMetrics(metrics, parts.table, version);
  measureCalls(app, metrics);
  rejectUnknownParameters(app, names);
  guardRoutes(api);
  await collectOpenapi(app, names.product, version, securitySchemes(authentication));
  addRoutes(api);
  await app.ready();
  return { handler: (request, response) => app.routing(request, response), close: () => app.close() };
}

/**
 * Makes the instance read bodies as bytes, within a limit in bytes and the memory for request bodies. A call that gets a
 * response before its body is there is the last of its connection.
 */
function readBodies(app: FastifyInstance, bodies: RequestBodies, usualLimit: number): void {
  app.removeAllContentTypeParsers();
  const responses = new WeakMap<IncomingMessage, ServerResponse>();
  app.addHook('preParsing', async ({ raw }, reply, payload) => {
    responses.set(raw, reply.raw);
    return payload;
  });
  app.addContentTypeParser('*', ({ raw, routeOptions }, _payload, next) => {
    const { bodyLimit: limit } = routeOptions;
    const key = limit === usualLimit ? ' (server.maxApiBodySize)' : '';
    const tooLarge = () =>
      new GatewayError('EG_TOO_LARGE', `The body is too large: the limit is ${limit} bytes${key}.`);
    if ((announcedLength(raw) ?? 0) > limit) {
      next(tooLarge());
      return;
    }
    void bodies.read(raw, responses.get(raw) as ServerResponse, limit).then((body) => {
      if (body === 'noMemory') {
        next(new GatewayError('EG_BUSY', memoryMessage(bodies.memory), { retryAfterSeconds: 1 }));
      } else if (body.complete) next(null, body.bytes);
      else next(tooLarge());
    });
  });
  app.addHook('onSend', async (request, reply) => {
    if (isUnfinished(request.raw)) endWith(request.raw, reply.raw);
  });
}

/** Counts and times every call of the API by its route's pattern, never by the path itself. */
function measureCalls(app: FastifyInstance, metrics: Registry): void {
  const calls = new Counter({
    name: 'engine_gateway_api_requests_total',
    help: 'Calls of the API.',
    labelNames: ['method', 'route', 'status'],
    registers: [metrics],
  });
  const seconds = new Histogram({
    name: 'engine_gateway_api_request_duration_seconds',
    help: 'Time of calls of the API in seconds.',
    labelNames: ['method', 'route'],
    buckets: [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10],
    registers: [metrics],
  });
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    calls.inc({ method: request.method, route, status: String(reply.statusCode) });
    seconds.observe({ method: request.method, route }, reply.elapsedTime / 1000);
  });
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
    rolloutRoutes(api, operator.rollouts);
    if (store !== null) replayRoutes({ ...api, store }, operator.replays);
  }
  if (api.publishedKeys !== null) jwksRoutes(api, api.publishedKeys);
  if (api.queryEvents !== null) queryEventRoute(api, api.queryEvents);
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
    if (store !== null) estimateRoutes({ ...api, store }, rules);
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
  digestRoutes(api);
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
