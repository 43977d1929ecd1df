import type { FastifyReply } from 'fastify';

/** Most warnings of a response, and characters of one: headers have an end. */
const MAX_WARNINGS = 8;
const MAX_LENGTH = 500;

/**
 * Adds a `Warning` header (code 299, miscellaneous persistent warning) a text. Headers hold ASCII only: other characters
 * are percent-encoded as UTF-8.
 */
export function warn(reply: FastifyReply, texts: readonly string[]): FastifyReply {
  for (const text of texts.slice(0, MAX_WARNINGS)) {
    const ascii = text.replaceAll(/[^\x20-\x7e]+/g, (part) => encodeURIComponent(part.toWellFormed()));
    const quoted = ascii.slice(0, MAX_LENGTH).replaceAll(/["\\]/g, '\\$&');
    reply.header('Warning', [
      ...[reply.getHeader('Warning') ?? []].flat().map(String),
      `299 engine-gateway "${quoted}"`,
    ]);
  }
  return reply;
}
