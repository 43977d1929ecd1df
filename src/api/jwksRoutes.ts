import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { PublishedKey } from '../gateway/user/signingKey.ts';

/** Path of the public keys of tokens for clusters. */
export const JWKS_PATH = '/.well-known/jwks.json';

export interface JwksRoutes {
  readonly published: () => { readonly keys: readonly PublishedKey[] };
}

const Jwks = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        { kid: Type.String({ description: 'Id of the key, as tokens name it.' }), kty: Type.String() },
        { additionalProperties: true },
      ),
      { description: 'Public keys (RFC 7517); the one that signs now is the first.' },
    ),
  },
  { description: 'Public keys.' },
);

/** The public keys of tokens that clusters get for users of client certificates (docs/client-certificates.md). */
export async function jwksRoutes(app: FastifyInstance, { published }: JwksRoutes): Promise<void> {
  app.get(
    JWKS_PATH,
    {
      config: { role: 'public' },
      schema: {
        tags: ['probes'],
        summary: 'Public keys of tokens for clusters',
        description: 'The keys that clusters verify tokens of users of client certificates with, as a JWKS.',
        response: { 200: Jwks },
      },
    },
    (_request, reply) => reply.header('cache-control', 'public, max-age=60').send(published()),
  );
}
