import type { FastifyInstance } from 'fastify';
import { type Static, Type } from 'typebox';
import type { ProductNames } from '../model/names.ts';
import { RegistryCluster } from '../model/registryCluster.ts';
import { compileCheck } from '../model/validation.ts';
import type { InventoryCluster } from '../operator/clusterInventory.ts';
import type { ClusterRegistry } from '../operator/clusterRegistry.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { recordChange } from './auth/audit.ts';
import { isForced, writerOf } from './auth/guard.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers, Force, reference } from './schemas.ts';

/** Needs of the routes of clusters and their resources. */
export interface ClusterRoutes {
  readonly inventory: () => readonly InventoryCluster[];
  readonly registry: ClusterRegistry;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

const tags = ['clusters'];
const nullable = <T extends Parameters<typeof Type.Optional>[0]>(type: T, description?: string) =>
  Type.Union([type, Type.Null()], description === undefined ? {} : { description });

const Condition = Type.Object({
  type: Type.String(),
  status: Type.Union([Type.Literal('True'), Type.Literal('False'), Type.Literal('Unknown')]),
  reason: Type.String(),
  message: Type.String(),
  observedGeneration: Type.Optional(Type.Integer()),
  lastTransitionTime: Type.String({ description: 'RFC 3339.' }),
});

const ClusterResource = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  generation: Type.Integer(),
  place: Type.String({ description: "Where it is written: a file's path and document, or its key." }),
  managers: Type.Array(Type.Object({ manager: Type.String(), fields: Type.Array(Type.String()) }), {
    description: 'Kubernetes: field managers of its spec (a GitOps controller, kubectl, engine-gateway-api for REST).',
  }),
  paused: Type.Boolean({ description: 'Reconciling is paused by annotation.' }),
  conditions: Type.Array(Condition, { description: 'As its status has them.' }),
});

/** A cluster as people who run the gateway look at it. */
export const ClusterState = Type.Object(
  {
    name: Type.String({ description: 'Registry name.' }),
    routed: Type.Boolean({ description: "False: its resource was never valid, or its name is another resource's." }),
    proxyTo: nullable(Type.String(), 'Null while it is not routed.'),
    externalUrl: nullable(Type.String()),
    routingGroup: nullable(Type.String()),
    active: Type.Boolean({ description: 'Whether it takes new queries.' }),
    specActive: nullable(Type.Boolean(), 'What its resource declares; null for a row.'),
    override: nullable(
      Type.Object({
        active: Type.Boolean(),
        by: Type.String({ description: 'Who asked for it.' }),
        at: nullable(Type.String(), 'RFC 3339.'),
      }),
      'A run-time override of what its resource declares.',
    ),
    differs: Type.Boolean({ description: 'The override says otherwise than the resource.' }),
    status: Type.String({ description: 'Of the last health check: PENDING, HEALTHY, UNHEALTHY.' }),
    reason: Type.String({ description: 'Why the last health check said so.' }),
    queued: nullable(Type.Integer(), 'Null where the kind of check counts none.'),
    running: nullable(Type.Integer()),
    workers: nullable(Type.Integer()),
    origin: Type.Union(
      [Type.Literal('kubernetes'), Type.Literal('directory'), Type.Literal('database'), Type.Literal('row')],
      { description: 'Where it is declared; row: by a gateway that ran before, without a resource.' },
    ),
    resource: nullable(ClusterResource, 'Null for a row.'),
  },
  { $id: 'ClusterState' },
);

const Activation = Type.Object({ active: Type.Boolean({ description: 'Whether it takes new queries.' }) });
const checkActivation = compileCheck(Activation);

/** Clusters with health, override, origin and conditions, and the switch that overrides `active` (contract §10). */
export async function clusterRoutes(app: FastifyInstance, options: ClusterRoutes): Promise<void> {
  const { inventory, registry, table, names } = options;
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
          200: answer('The cluster.', reference(RegistryCluster)),
          202: answer('The database is away and follows by itself.', reference(RegistryCluster)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const name = clusterInPath(request);
      const checked = checkActivation(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const before = registry.get(name);
      const context = { by: writerOf(request, 'api'), force: isForced(request) };
      const { cluster, pending, resource } = await registry.setActive(name, checked.value.active, context);
      recordChange(request, { object: `cluster ${name}`, regarding: resource, before, after: cluster });
      if (pending) reply.code(202).header(names.header('Gateway-Pending'), 'database');
      return reply.send(cluster);
    },
  );
}

function stateOf(
  { name, origin, routable, resource }: InventoryCluster,
  table: RoutingTableHolder,
): Static<typeof ClusterState> {
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
    origin,
    resource: resource === null ? null : resourceState(resource),
  };
}

function notRouted(resource: InventoryCluster['resource']): string {
  const accepted = resource?.conditions.find(({ type }) => type === 'Accepted');
  return accepted?.status === 'True' ? 'not in the routing table yet' : (accepted?.message ?? 'not looked at yet');
}

function resourceState({
  namespace,
  name,
  generation,
  place,
  managers,
  paused,
  conditions,
}: NonNullable<InventoryCluster['resource']>): Static<typeof ClusterResource> {
  return {
    namespace,
    name,
    generation,
    place,
    managers: managers.map(({ manager, fields }) => ({ manager, fields: [...fields] })),
    paused,
    conditions: [...conditions],
  };
}
