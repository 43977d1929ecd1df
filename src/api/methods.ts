import { METHODS } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { GatewayError } from '../model/errors.ts';

/** Methods that Node's parser knows; CONNECT never reaches a request handler. */
const methods = METHODS.filter((method) => method !== 'CONNECT');

/**
 * Makes the instance answer all other methods of the paths it serves: OPTIONS with 204 and `Allow`, the rest with 405
 * and `Allow` (RFC 9110 §15.5.6). Routes registered after `complete` are not covered.
 */
export function otherMethods(app: FastifyInstance): { complete(): void } {
  const served = new Map<string, Set<string>>();
  for (const method of methods)
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true });
  app.addHook('onRoute', ({ url, method }) => {
    const known = served.get(url) ?? new Set();
    for (const name of [method].flat()) known.add(name);
    served.set(url, known);
  });
  const complete = () => {
    for (const [url, known] of [...served]) {
      const allow = [...known, 'OPTIONS'].sort().join(', ');
      const rest = methods.filter((method) => !known.has(method));
      app.route({
        url,
        method: rest,
        schema: { hide: true },
        config: { role: 'public' },
        exposeHeadRoute: false,
        onRequest: async (request, reply) => {
          reply.header('Allow', allow);
          if (request.method === 'OPTIONS') return reply.code(204).send();
          throw new GatewayError(
            'EG_METHOD_NOT_ALLOWED',
            `${request.method} is not possible here; this path has ${allow}.`,
          );
        },
        handler: () => undefined,
      });
    }
  };
  return { complete };
}
