import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import { ClusterDetails, ClusterState, SwitchedCluster } from './answers/clusters.ts';
import { type ClusterDetailsOptions, clusterDetails, clusterNamed, switchedVersion } from './clusterDetails.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { clusterState } from './clusterState.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { ListPage, listPageOf } from './page.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers, Force, reference, writeAnswers } from './schemas.ts';
import { AuditedRegistry } from './writes/auditedRegistry.ts';
import { apiFamily } from './writes/writeFamily.ts';

export interface ClusterRoutes extends ClusterDetailsOptions {
  readonly registry: ClusterRegistry;
  readonly names: ProductNames;
}

const tags = ['clusters'];

const Activation = Type.Object({
  active: Type.Boolean({ description: 'Whether it takes new queries.' }),
  version: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'As the cluster was switched when it was looked at: 409 where somebody has switched it since.',
    }),
  ),
});
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
        querystring: ListPage,
        response: {
          200: answer('The clusters by name.', Type.Array(reference(ClusterState))),
          ...notModified,
          ...errorAnswers(400),
        },
      },
    },
    (request, reply) => {
      const page = listPageOf(inventory(), request.query, ({ name }) => name);
      return reply.send(page.map((cluster) => clusterState(cluster, table)) satisfies readonly ClusterState[]);
    },
  );

  app.get(
    '/api/clusters/:name',
    {
      schema: {
        tags,
        summary: 'A cluster with its last changes, its group, and what its resource declares against what is in force',
        description: 'Health and changes as the replica that answers saw them. Carries an ETag.',
        params: ClusterInPath,
        response: { 200: answer('The cluster.', reference(ClusterDetails)), ...notModified, ...errorAnswers(400, 404) },
      },
    },
    (request, reply) => {
      const name = clusterInPath(request);
      const details = clusterDetails(name, options);
      if (details !== null) return reply.send(details);
      throw new GatewayError('EG_NOT_FOUND', `There is no cluster named ${JSON.stringify(name)}.`, { field: 'name' });
    },
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
          ...writeAnswers('The cluster.', reference(SwitchedCluster)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const name = clusterInPath(request);
      const checked = checkActivation(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const { active, version } = checked.value;
      const cluster = await audited.setActive(request, reply, name, active, version);
      const after = clusterNamed(name, inventory());
      const isOwn = after?.routable?.active === active;
      return reply.send({ ...cluster, version: isOwn ? switchedVersion(after) : null });
    },
  );
}
