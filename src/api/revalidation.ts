import etag from '@fastify/etag';
import type { FastifyInstance } from 'fastify';
import { type TSchema, Type } from 'typebox';

/**
 * Makes answers of the instance's GET routes carry an ETag and answers 304 where the caller has that version already
 * (RFC 9110 §8.8.3, §13.1.2): a page can ask every second or two, and is sent something only when something changed.
 * Browsers keep the answer and send `If-None-Match` by themselves; nothing is used without asking again.
 */
export async function revalidated(app: FastifyInstance): Promise<void> {
  await app.register(etag, { algorithm: 'sha1' });
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('Cache-Control', 'private, no-cache').header('Vary', 'Authorization, Cookie');
  });
}

/** Description of the answer to a caller who has the present version. */
export const notModified: Record<string, TSchema> = {
  304: Type.Null({ description: 'Nothing changed since the version that `If-None-Match` names.' }),
};
