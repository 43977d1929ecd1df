import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { endWith, isUnfinished } from '../gateway/bodies/lastRequest.ts';
import { announcedLength, memoryMessage, type RequestBodies } from '../gateway/bodies/requestBodies.ts';
import { GatewayError } from '../model/errors.ts';

/**
 * Makes the instance read bodies as bytes, whatever their type, within a limit and the memory for request bodies. A
 * call that gets a response before its body is there is the last of its connection.
 * @param limit longest body in bytes; longer ones get a response 413
 */
export function readBodies(app: FastifyInstance, bodies: RequestBodies, limit: number): void {
  app.removeAllContentTypeParsers();
  const responses = new WeakMap<IncomingMessage, ServerResponse>();
  app.addHook('preParsing', async ({ raw }, reply, payload) => {
    responses.set(raw, reply.raw);
    return payload;
  });
  app.addContentTypeParser('*', ({ raw }, _payload, next) => {
    if ((announcedLength(raw) ?? 0) > limit) {
      next(tooLarge(limit));
      return;
    }
    bodies.read(
      raw,
      responses.get(raw) as ServerResponse,
      limit,
      ({ bytes, complete }) => (complete ? next(null, bytes) : next(tooLarge(limit))),
      () => next(new GatewayError('EG_BUSY', memoryMessage(bodies.memory), { retryAfterSeconds: 1 })),
    );
  });
  app.addHook('onSend', async (request, reply) => {
    if (isUnfinished(request.raw)) endWith(request.raw, reply.raw);
  });
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError(
    'EG_TOO_LARGE',
    `The body is too large: the limit is ${limit} bytes (server.maxApiBodySize).`,
  );
}
