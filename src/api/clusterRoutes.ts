import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../model/names.ts';
import { RegistryCluster } from '../model/registryCluster.ts';
import { compileCheck } from '../model/validation.ts';
import type { InventoryCluster } from '../operator/registry/clusterInventory.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { ClusterState } from './answers/clusters.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers, Force, reference, writeAnswers } from './schemas.ts';
import { AuditedRegistry } from './writes/auditedRegistry.ts';
import { apiFamily } from './writes/writeFamily.ts';

/** Dependencies of the routes of clusters and their resources. */
export interface ClusterRoutes {
  readonly inventory: () => readonly InventoryCluster[];
  readonly registry: ClusterRegistry;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

const tags = ['clusters'];

const Activation = Type.Object({ active: Type.Boolean({ description: 'Whether it takes new queries.' }) });
const checkActivation = compileCheck(Activation);

/**
 * Clusters with health, override, origin and conditions, and the switch that overrides `active`
 * (docs/rest-api.md#clusters-and-their-resources).
 */
export async function clusterRoutes(app: FastifyInstance, options: ClusterRoutes): Promise<void> {
  const { inventory, registry, table, names } = options;
  const audited = new AuditedRegistry(registry, names, apiFamily);
  revalidate(app);

  app.get(
    '/api/clusters',
    {
      schema: {
        tags,
        summary: 'All clusters with their health, their resource and what overrides it',
        description: 'Also resources that are not routed. Carries an ETag.',
        response: { 200: answer('The clusters by name.', Type.Array(reference(ClusterState))), ...notModified },
      },
    },
    (_request, reply) => reply.send(inventory().map((cluster) => stateOf(cluster, table))),
  );

  app.put(
    '/api/clusters/:name/active',
    {
      schema: {
        tags,
        summary: 'Lets a cluster take new queries, or keeps them away',
        description:
          'A run-time override that no GitOps controller undoes; it ends when spec.active changes or says the same. Running queries go on.',
        params: ClusterInPath,
        querystring: Force,
        body: Activation,
        response: {
          ...writeAnswers('The cluster.', reference(RegistryCluster)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const name = clusterInPath(request);
      const checked = checkActivation(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      return reply.send(await audited.setActive(request, reply, name, checked.value.active));
    },
  );
}

function stateOf({ name, origin, routable, resource }: InventoryCluster, table: RoutingTableHolder): ClusterState {
  const health = routable === null ? undefined : table.current.clusters.get(name)?.health;
  const { specActive = null, override = null } = resource ?? {};
  return {
    name,
    routed: routable !== null,
    proxyTo: routable?.proxyTo ?? null,
    externalUrl: routable?.externalUrl ?? null,
    routingGroup: routable?.routingGroup ?? null,
    active: routable?.active ?? false,
    specActive,
    override: override === null ? null : { active: override.active, by: override.by, at: override.at },
    differs: override !== null && override.active !== specActive,
    status: health?.status ?? 'PENDING',
    reason: health?.reason ?? notRouted(resource),
    queued: health?.queued ?? null,
    running: health?.running ?? null,
    workers: health?.workers ?? null,
    maxRunningQueries: routable?.maxRunningQueries ?? null,
    origin,
    resource: resource === null ? null : resourceState(resource),
  };
}

function notRouted(resource: InventoryCluster['resource']): string {
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  return acceptance?.status === 'True' ? 'not in the routing table yet' : (acceptance?.message ?? 'not looked at yet');
}

function resourceState({
  namespace,
  name,
  generation,
  place,
  managers,
  paused,
  conditions,
}: NonNullable<InventoryCluster['resource']>): ClusterState['resource'] {
  return {
    namespace,
    name,
    generation,
    place,
    managers,
    paused,
    conditions,
  };
}
