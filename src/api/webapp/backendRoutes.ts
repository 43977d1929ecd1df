import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../../model/names.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../../model/registryCluster.ts';
import { compileCheck } from '../../model/validation.ts';
import type { ClusterRegistry } from '../../operator/registry/clusterRegistry.ts';
import { neverChecked } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import { Force, reference } from '../schemas.ts';
import { AuditedRegistry } from '../writes/auditedRegistry.ts';
import { webappFamily } from '../writes/writeFamily.ts';
import { bodyOf, type EnvelopeRoutes, envelopeErrors, failureAnswers, succeed, successAnswer } from './envelope.ts';

export interface BackendRoutes extends EnvelopeRoutes {
  readonly registry: ClusterRegistry;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

const tags = ['web application: clusters'];
const counted = (what: string) =>
  Type.Union([Type.Integer(), Type.Null()], { description: `${what}; null where the check counts none.` });
const ListedBackend = Type.Object({
  ...RegistryCluster.properties,
  queued: Type.Integer({ description: 'Queued queries as the last health check counted them, or 0.' }),
  running: Type.Integer({ description: 'Running queries as the last health check counted them, or 0.' }),
  status: Type.Union([Type.Literal('PENDING'), Type.Literal('HEALTHY'), Type.Literal('UNHEALTHY')]),
  health: Type.Object(
    {
      reason: Type.String({ description: 'What the last health check found, or why requests took the cluster out.' }),
      checkedAt: Type.Union([Type.Integer(), Type.Null()], {
        description: 'Time of the last health check, milliseconds since 1970; null before the first.',
      }),
      queued: counted('Queued queries'),
      running: counted('Running queries'),
      workers: counted('Worker nodes'),
    },
    { description: 'The last health check.' },
  ),
});
const ByName = Type.Object({ name: Type.String({ minLength: 1, description: 'Name of the cluster.' }) });
const checkByName = compileCheck(ByName);
/** As the reference reads it, which deletes nothing where there is no name. */
const checkByOptionalName = compileCheck(
  Type.Object({ name: Type.Optional(Type.Union([Type.String(), Type.Null()])) }),
);
const writeErrors = failureAnswers(400, 403, 409, 413, 415, 422, 503);

/**
 * Clusters as the web application sees them; writes go the registry's way
 * (docs/rest-api.md#calls-of-the-web-application).
 */
export async function backendRoutes(app: FastifyInstance, options: BackendRoutes): Promise<void> {
  const { registry, table, names } = options;
  const audited = new AuditedRegistry(registry, names, webappFamily);
  const parseCluster = clusterParser(names);
  envelopeErrors(app, options);

  app.post(
    '/webapp/getAllBackends',
    {
      schema: {
        tags,
        summary: 'Lists all clusters with their state',
        response: { 200: successAnswer('All clusters.', Type.Array(ListedBackend)) },
      },
    },
    (_request, reply) =>
      succeed(
        reply,
        registry.all().map((cluster) => {
          const health = table.current.clusters.get(cluster.name)?.health ?? neverChecked;
          const { reason, checkedAt, queued, running, workers } = health;
          return {
            ...cluster,
            queued: queued ?? 0,
            running: running ?? 0,
            status: health.status,
            health: { reason, checkedAt, queued, running, workers },
          };
        }),
      ),
  );

  for (const [call, operation, summary] of [
    ['saveBackend', 'add', 'Adds a cluster'],
    ['updateBackend', 'update', 'Replaces a cluster, or adds it'],
  ] as const) {
    app.post(
      `/webapp/${call}`,
      {
        schema: {
          tags,
          summary,
          querystring: Force,
          body: reference(RegistryClusterInput),
          response: {
            200: successAnswer('The cluster as it is stored.', reference(RegistryCluster)),
            ...writeErrors,
          },
        },
      },
      async (request, reply) => {
        const cluster = bodyOf(request, parseCluster);
        return succeed(reply, await audited.store(operation, request, reply, cluster));
      },
    );
  }

  app.post(
    '/webapp/deleteBackend',
    {
      schema: {
        tags,
        summary: 'Deletes a cluster',
        description: 'An unknown name is no error.',
        body: ByName,
        response: { 200: successAnswer('True.', Type.Literal(true)), ...writeErrors },
      },
    },
    async (request, reply) => {
      const { name } = bodyOf(request, names.isReference ? checkByOptionalName : checkByName);
      if (typeof name === 'string' && name !== '') await audited.delete(request, reply, name);
      return succeed(reply, true);
    },
  );
}
