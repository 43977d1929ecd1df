import type { FastifyInstance } from 'fastify';
import { isSlip, nearest } from '../config/nearest.ts';
import type { ProductNames } from '../model/names.ts';
import { errorsOf, responsesOf } from './auth/guard.ts';
import { malformed } from './errors.ts';

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
