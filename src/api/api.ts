import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import Fastify, { type FastifySchema } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { TSchema } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { ClusterRegistry } from '../operator/clusterRegistry.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { SchemaStores } from '../store/schemaStores.ts';
import { errorHandler, malformed, pathOf } from './errors.ts';
import { healthRoutes } from './healthRoutes.ts';
import { indexPage } from './indexPage.ts';
import { otherMethods } from './methods.ts';
import { measureCalls, metricsRoutes, registerMetrics } from './metricsRoutes.ts';
import { collectOpenapi, openapiRoute } from './openapi.ts';
import { publicRoutes } from './publicRoutes.ts';
import type { Readiness } from './readiness.ts';
import { registryRoutes } from './registryRoutes.ts';
import { resourceGroupRoutes } from './resourceGroupRoutes.ts';

/** Longest body of the API in bytes, where nothing else is said. */
export const DEFAULT_BODY_LIMIT = 1024 * 1024;

/** What the API speaks for. */
export interface ApiDependencies {
  readonly registry: ClusterRegistry;
  readonly table: RoutingTableHolder;
  readonly readiness: Readiness;
  /** All metrics of the process; the API adds its own, the clusters' and the process's. */
  readonly metrics: Registry;
  readonly logger: Logger;
  /** Null: the resource group family is switched off (`resourceGroups.enabled`). */
  readonly resourceGroups?: SchemaStores | null;
}

/** How it speaks. */
export interface ApiOptions {
  readonly names: ProductNames;
  /** Version of the program. */
  readonly version: string;
  /** Longest body in bytes; longer ones are answered 413. */
  readonly bodyLimit?: number;
}

/** The REST API as a handler for a `node:http` server that others share. */
export interface Api {
  /** Answers every request it is given; 404 for paths that are not the API's. */
  handler(request: IncomingMessage, response: ServerResponse): void;
  /** Waits for running calls; later ones are answered 503. */
  close(): Promise<void>;
}

/** Makes the API: one Fastify instance without a server of its own, every family of routes a plugin. */
export async function createApi(dependencies: ApiDependencies, options: ApiOptions): Promise<Api> {
  const { registry, table, readiness, metrics, logger, resourceGroups } = dependencies;
  const { names, version, bodyLimit = DEFAULT_BODY_LIMIT } = options;
  const onError = errorHandler(logger);
  const app = Fastify({
    bodyLimit,
    genReqId: () => randomUUID(),
    frameworkErrors: onError,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096 },
  });

  app.setErrorHandler(onError);
  app.setNotFoundHandler(() => undefined);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  // Query and path are checked here; bodies by the routes, whose messages know the fields. Answers are not rewritten.
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
    if (request.is404) {
      throw new GatewayError('EG_NOT_FOUND', `There is no ${pathOf(request)} here; /openapi.json lists what there is.`);
    }
  });
  registerMetrics({ metrics, table, version });
  measureCalls(app, metrics);

  const methods = otherMethods(app);
  await collectOpenapi(app, names.product, version);
  await app.register(registryRoutes, { registry, names });
  await app.register(publicRoutes, { registry, table, names });
  await app.register(healthRoutes, { readiness, table, names });
  await app.register(metricsRoutes, { metrics, table, version });
  if (resourceGroups) await app.register(resourceGroupRoutes, { stores: resourceGroups, names });
  await app.register(indexPage, { names, version });
  await app.register(openapiRoute);
  methods.complete();
  await app.ready();
  return { handler: (request, response) => app.routing(request, response), close: () => app.close() };
}
