import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { RegistryCluster } from '../model/registryCluster.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { answer, errorAnswers, reference } from './schemas.ts';

export interface PublicRoutes {
  readonly registry: ClusterRegistry;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

const tags = ['public reads'];

/** Reads that need no credentials unless `authentication.publicReads` is false; they show no names of users. */
export async function publicRoutes(app: FastifyInstance, { registry, table, names }: PublicRoutes): Promise<void> {
  const ClusterState = Type.Object({
    clusterId: Type.String({ description: 'Name of the cluster.' }),
    runningQueryCount: Type.Integer({ description: 'Running queries; 0 where the health check gives no counts.' }),
    queuedQueryCount: Type.Integer({ description: 'Queued queries; 0 where the health check gives no counts.' }),
    numWorkerNodes: Type.Integer({ description: 'Worker nodes; 0 where the health check gives no counts.' }),
    [names.statusField]: Type.Union([Type.Literal('PENDING'), Type.Literal('HEALTHY'), Type.Literal('UNHEALTHY')]),
    proxyTo: Type.Optional(Type.String()),
    externalUrl: Type.Optional(Type.String()),
    routingGroup: Type.Optional(Type.String()),
  });

  app.get(
    '/api/public/backends',
    {
      schema: {
        tags,
        summary: 'Lists all clusters',
        response: { 200: answer('All clusters.', Type.Array(reference(RegistryCluster))) },
      },
    },
    (_request, reply) => reply.send(registry.all()),
  );

  app.get(
    '/api/public/backends/:name',
    {
      schema: {
        tags,
        summary: 'Shows a cluster',
        params: ClusterInPath,
        response: { 200: answer('The cluster.', reference(RegistryCluster)), ...errorAnswers(400, 404) },
      },
    },
    (request, reply) => {
      const name = clusterInPath(request);
      const cluster = registry.get(name);
      if (cluster === null) throw unknownCluster(name);
      return reply.send(cluster);
    },
  );

  app.get(
    '/api/public/backends/:name/state',
    {
      schema: {
        tags,
        summary: "Shows a cluster's state",
        description: 'Before the first health check: counts of zero, PENDING, and no more fields.',
        params: ClusterInPath,
        response: { 200: answer('The state.', ClusterState), ...errorAnswers(400, 404) },
      },
    },
    (request, reply) => {
      const name = clusterInPath(request);
      const entry = table.current.clusters.get(name);
      if (entry === undefined && registry.get(name) === null) throw unknownCluster(name);
      const health = entry?.health;
      const state = {
        clusterId: name,
        runningQueryCount: health?.running ?? 0,
        queuedQueryCount: health?.queued ?? 0,
        numWorkerNodes: health?.workers ?? 0,
        [names.statusField]: health?.status ?? 'PENDING',
      };
      if (entry === undefined || health === undefined || health.checkedAt === null) return reply.send(state);
      return reply.send({
        ...state,
        proxyTo: entry.proxyTo,
        externalUrl: entry.externalUrl,
        routingGroup: entry.routingGroup,
      });
    },
  );
}

function unknownCluster(name: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `There is no cluster named ${JSON.stringify(name)}.`, { field: 'name' });
}
