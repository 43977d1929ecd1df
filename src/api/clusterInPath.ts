import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';

export const ClusterInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the cluster, percent-encoded.' }),
});

export function clusterInPath(request: FastifyRequest): string {
  return (request.params as { name: string }).name;
}
