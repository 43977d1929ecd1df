import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';

/** The path parameter that names a cluster. */
export const ClusterInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the cluster, percent-encoded.' }),
});

/**
 * The cluster's name in the path of a request. Any name can be asked for but one with a slash, which no cluster can have.
 * @throws GatewayError EG_MALFORMED for an encoded slash
 */
export function clusterInPath(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  if (name.includes('/')) {
    throw new GatewayError('EG_MALFORMED', 'name must not hold a slash.', { field: 'name' });
  }
  return name;
}
