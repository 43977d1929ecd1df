import { createHash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { type TSchema, Type } from 'typebox';

/**
 * Adds an ETag to successful responses of the instance's GETs, and responds 304 to callers who have that version
 * (RFC 9110 §8.8.3, §13.1.2). Browsers store the response and send `If-None-Match` by themselves.
 */
export function revalidate(app: FastifyInstance): void {
  app.addHook('onSend', async (request, reply, payload) => {
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!isRead || reply.statusCode !== 200 || typeof payload !== 'string') return payload;
    const tag = tagOf(payload);
    reply.headers({ ETag: tag, 'Cache-Control': 'private, no-cache', Vary: 'Authorization, Cookie' });
    if (!matches(request.headers['if-none-match'], tag)) return payload;
    reply.code(304).removeHeader('content-type');
    return null;
  });
}

/** Weak: compression does not change it. Equal bodies have the same tag at every replica. */
function tagOf(payload: string): string {
  return `W/"${createHash('sha256').update(payload).digest('base64url')}"`;
}

/** True if one of the tags is this one by the weak comparison; `*` is any. */
function matches(ifNoneMatch: string | undefined, tag: string): boolean {
  const opaque = tag.slice('W/'.length);
  return (ifNoneMatch ?? '')
    .split(',')
    .map((each) => each.trim())
    .some((each) => each === '*' || each === tag || each === opaque);
}

/** Description of the response to a caller who has the present version. */
export const notModified: Record<string, TSchema> = {
  304: Type.Null({ description: 'Nothing changed since the version that `If-None-Match` names.' }),
};
