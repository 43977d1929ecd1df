import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import { ClusterInPath, clusterInPath } from './clusterInPath.ts';
import { malformed } from './errors.ts';
import { jsonBody, utf8 } from './jsonBody.ts';
import { nameToDelete } from './nameToDelete.ts';
import { answer, ErrorBody, emptyAnswer, errorAnswers, Force, reference } from './schemas.ts';
import { AuditedRegistry } from './writes/auditedRegistry.ts';
import { apiFamily, pendingHeader } from './writes/writeFamily.ts';

export interface RegistryRoutes {
  readonly registry: ClusterRegistry;
  readonly names: ProductNames;
}

const tags = ['cluster registry'];
const clusters = Type.Array(reference(RegistryCluster));

/** 404 of a path without a name is the usual one, as everywhere. */
const unknownCluster = {
  description: 'There is no cluster of that name: a plain text.',
  content: { 'text/plain': { schema: Type.String() }, 'application/json': { schema: reference(ErrorBody) } },
};

/** The cluster registry (docs/rest-api.md#cluster-registry, docs/compatibility.md#cluster-registry). */
export async function registryRoutes(app: FastifyInstance, { registry, names }: RegistryRoutes): Promise<void> {
  const accepted = `As 200, but the database is unavailable: the change is safe in the resource source and follows by itself (header ${pendingHeader(names)}).`;
  const audited = new AuditedRegistry(registry, names, apiFamily);
  listingRoutes(app, registry);
  storingRoutes(app, audited, names, accepted);
  deletionRoute(app, { registry, names }, audited, accepted);
  activationRoutes(app, audited, accepted);
}

function listingRoutes(app: FastifyInstance, registry: ClusterRegistry): void {
  app.get(
    '/gateway',
    {
      schema: {
        tags,
        summary: 'Answers ok',
        response: {
          200: {
            description: 'The text ok (typed as JSON, as callers know it).',
            content: { 'application/json': { schema: {} } },
          },
        },
      },
    },
    (_request, reply) => reply.type('application/json; charset=utf-8').send('ok'),
  );

  app.get(
    '/gateway/backend/all',
    { schema: { tags, summary: 'Lists all clusters', response: { 200: answer('All clusters.', clusters) } } },
    (_request, reply) => reply.send(registry.all()),
  );

  app.get(
    '/gateway/backend/active',
    {
      schema: {
        tags,
        summary: 'Lists active clusters',
        response: { 200: answer('Clusters whose active is true, whatever their health.', clusters) },
      },
    },
    (_request, reply) => reply.send(registry.all().filter((cluster) => cluster.active)),
  );
}

/** Adds and replaces clusters. */
function storingRoutes(app: FastifyInstance, audited: AuditedRegistry, names: ProductNames, accepted: string): void {
  const parseCluster = clusterParser(names);
  const writes = [
    ['add', 'Adds a cluster', 'A cluster of that name is an error (409).'],
    ['update', 'Replaces a cluster', 'A cluster of that name that does not exist is added.'],
  ] as const;
  for (const [operation, summary, description] of writes) {
    app.post(
      `/gateway/backend/modify/${operation}`,
      {
        schema: {
          tags,
          summary,
          description,
          querystring: Force,
          body: reference(RegistryClusterInput),
          response: {
            200: answer('The cluster as it is stored.', reference(RegistryCluster)),
            202: answer(accepted, reference(RegistryCluster)),
            ...errorAnswers(400, 403, 409, 413, 415, 422, 503),
          },
        },
      },
      async (request, reply) => {
        const checked = parseCluster(jsonBody(request));
        if (!checked.ok) throw malformed(checked.problems);
        return reply.send(await audited.store(operation, request, reply, checked.value));
      },
    );
  }
}

function deletionRoute(
  app: FastifyInstance,
  { registry, names }: RegistryRoutes,
  audited: AuditedRegistry,
  accepted: string,
): void {
  app.post(
    '/gateway/backend/modify/delete',
    {
      schema: {
        tags,
        summary: 'Deletes a cluster',
        description: 'Body: the name as text of any content type, or {"name": "…"}. An unknown name is no error.',
        querystring: Force,
        body: { content: { 'text/plain': { schema: Type.String({ minLength: 1 }) } } },
        response: {
          200: emptyAnswer('Deleted, or it was not there.'),
          202: emptyAnswer(accepted),
          ...errorAnswers(400, 403, 409, 413, 422, 503),
        },
      },
      // The name is taken whatever type the caller declares, well-formed or not.
      onRequest: async (request) => {
        delete request.raw.headers['content-type'];
      },
    },
    async (request, reply) => {
      const body = request.body as Buffer | undefined;
      // The reference deletes nothing then.
      if (names.isReference && utf8(body).trim() === '') return reply.send();
      await audited.delete(request, reply, nameToDelete(body, registry));
      return reply.send();
    },
  );
}

/** Activates and deactivates clusters. */
function activationRoutes(app: FastifyInstance, audited: AuditedRegistry, accepted: string): void {
  for (const active of [true, false]) {
    app.post(
      `/gateway/backend/${active ? 'activate' : 'deactivate'}/:name`,
      {
        schema: {
          tags,
          summary: active ? 'Lets a cluster take new queries' : 'Keeps new queries away from a cluster',
          description: active ? 'Idempotent.' : 'Idempotent. Running queries go on.',
          params: ClusterInPath,
          querystring: Force,
          response: {
            200: emptyAnswer('Done.'),
            202: emptyAnswer(accepted),
            404: unknownCluster,
            ...errorAnswers(400, 403, 409, 413, 422, 503),
          },
        },
      },
      async (request, reply) => {
        const name = clusterInPath(request);
        try {
          await audited.setActive(request, reply, name, active);
          return reply.send();
        } catch (error) {
          if (!(error instanceof GatewayError) || error.code !== 'EG_NOT_FOUND') throw error;
          const text = `No cluster found with name: ${name}, could not (de)activate`;
          return reply.code(404).type('text/plain; charset=utf-8').send(text);
        }
      },
    );
  }
}
