import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';

/** The path parameter that names a cluster. */
export const ClusterInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the cluster, percent-encoded.' }),
});

/** The cluster's name in the path of a request, decoded. */
export function clusterInPath(request: FastifyRequest): string {
  return (request.params as { name: string }).name;
}
