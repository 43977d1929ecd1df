import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../model/errors.ts';
import { pathOf } from './errors.ts';
import { type IndexPage, sendPlainPage } from './indexPage.ts';

/**
 * Makes the instance answer what no route of it serves: another method of a path it has with 405 and `Allow`, OPTIONS
 * with 204 and `Allow` (RFC 9110 §15.5.6, §9.3.7), any other path with 404. Before the body is read, so that its size
 * and form play no part; browsers get a page of links. To be called before any route is registered.
 */
export function respondUnserved(app: FastifyInstance, options: IndexPage): void {
  const served = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const route = served.get(url) ?? { pattern: patternOf(url), methods: new Set(['OPTIONS']) };
    for (const name of [method].flat()) route.methods.add(name);
    served.set(url, route);
  });
  app.setNotFoundHandler(() => undefined);
  app.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    if (!request.is404) return;
    const path = pathOf(request);
    const methods = [...served.values()]
      .filter(({ pattern }) => pattern.test(path))
      .flatMap((route) => [...route.methods]);
    if (methods.length === 0) {
      if (request.headers.accept?.includes('text/html') === true) {
        const text = 'Nothing is served under this path. These are:';
        return sendPlainPage(reply.code(404), options, { title: 'Not found', text });
      }
      const pages = options.hasPages ? `the pages are at ${options.names.gatewayPath}, and ` : '';
      throw new GatewayError('EG_NOT_FOUND', `There is no ${path} here; ${pages}/openapi.json lists all calls.`);
    }
    const allow = [...new Set(methods)].sort().join(', ');
    reply.header('Allow', allow);
    if (request.method === 'OPTIONS') return reply.code(204).send();
    throw new GatewayError('EG_METHOD_NOT_ALLOWED', `${request.method} is not possible here; this path has ${allow}.`);
  });
}

/** Paths that a route's URL serves; `:name` is one segment, `*` the rest, a slash at the end makes no difference. */
function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((segment) =>
      segment === '*' ? '.*' : segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/').replace(/\/$/, '')}/?$`);
}
