import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { queryLimit } from '../kinds/queryLimit/kind.ts';
import { QUERY_LIMIT, QueryLimitSpec } from '../kinds/queryLimit/spec.ts';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import type { WriteContext } from '../operator/registry/clusterRegistry.ts';
import type { InventoryLimit, LimitRegistry } from '../operator/registry/limitRegistry.ts';
import type { SpecWrite } from '../operator/registry/specWrites.ts';
import { LimitState } from './answers/limits.ts';
import { countsOf, declaredState } from './limitAnswers.ts';
import { DeletedVersion, sentSpec, sentVersion, Version } from './limitBodies.ts';
import { ListPage, listPageOf } from './page.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, emptyWriteAnswers, errorAnswers, Force, reference, writeAnswers } from './schemas.ts';
import { AuditedWrites, apiFamily } from './writes/writeFamily.ts';

export interface LimitRoutes {
  readonly limits: Pick<LimitRegistry, 'limits' | 'limit' | 'putLimit' | 'deleteLimit'>;
  readonly names: ProductNames;
}

const tags = ['limits'];
const { gatewayClassName: _class, ...fields } = QueryLimitSpec.properties;
const LimitUpdate = Type.Object(
  { ...fields, ...Version },
  {
    $id: 'LimitUpdate',
    additionalProperties: false,
    description: 'A limit as a whole: what is absent has its default.',
  },
);

const KubernetesName = { minLength: 1, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$' } as const;
const LimitInPath = Type.Object({
  namespace: Type.String({ ...KubernetesName, description: 'Namespace of its resource.' }),
  name: Type.String({ ...KubernetesName, description: 'Name of its resource.' }),
});

/** Limits of users and sources, and changing them where they are declared (docs/rest-api.md#groups-and-limits). */
export async function limitRoutes(app: FastifyInstance, { limits, names }: LimitRoutes): Promise<void> {
  revalidate(app);
  const state = ({ namespace, name }: LimitPath): LimitState | null => {
    const limit = limits.limit(namespace, name);
    return limit === null ? null : limitState(limit);
  };
  const writes = new AuditedWrites(names, apiFamily);
  const write = async (
    request: FastifyRequest,
    reply: FastifyReply,
    path: LimitPath,
    change: (context: WriteContext) => Promise<SpecWrite>,
  ) => {
    const object = `query limit ${path.namespace}/${path.name}`;
    const limit = { object, kind: QUERY_LIMIT, name: path.name, before: state(path)?.spec ?? null };
    await writes.make(request, reply, limit, change, () => state(path)?.spec ?? null);
    return state(path);
  };

  app.get(
    '/api/limits',
    {
      schema: {
        tags,
        summary: 'All limits of users and sources, with how much of them is used',
        description: 'Carries an ETag.',
        querystring: ListPage,
        response: {
          200: answer('By namespace and name.', Type.Array(reference(LimitState))),
          ...notModified,
          ...errorAnswers(400),
        },
      },
    },
    (request, reply) => {
      const page = listPageOf(limits.limits(), request.query, ({ namespace, name }) => `${namespace}/${name}`);
      return reply.send(page.map(limitState));
    },
  );

  app.get(
    '/api/limits/:namespace/:name',
    {
      schema: {
        tags,
        summary: 'A limit, with how much of it is used',
        params: LimitInPath,
        response: { 200: answer('The limit.', reference(LimitState)), ...notModified, ...errorAnswers(400, 404) },
      },
    },
    (request, reply) => {
      const path = limitPath(request);
      const limit = state(path);
      if (limit === null) throw noLimit(path);
      return reply.send(limit);
    },
  );

  app.put(
    '/api/limits/:namespace/:name',
    {
      schema: {
        tags,
        summary: 'Declares a limit, or replaces what it declares',
        params: LimitInPath,
        querystring: Force,
        body: LimitUpdate,
        response: {
          ...writeAnswers('The limit, in force.', reference(LimitState)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const path = limitPath(request);
      const { spec, version } = sentSpec<QueryLimitSpec>(request, LimitUpdate, (body) => queryLimit.specProblems(body));
      const after = await write(request, reply, path, ({ force }) =>
        limits.putLimit(path.namespace, path.name, spec, { force, version }),
      );
      if (after === null) {
        throw new GatewayError('EG_CONFLICT', `the limit ${path.namespace}/${path.name} was deleted meanwhile`);
      }
      return reply.send(after);
    },
  );

  app.delete(
    '/api/limits/:namespace/:name',
    {
      schema: {
        tags,
        summary: 'Deletes a limit',
        params: LimitInPath,
        querystring: DeletedVersion,
        response: {
          ...emptyWriteAnswers('Deleted.'),
          ...errorAnswers(400, 403, 404, 409, 413, 503),
        },
      },
    },
    async (request, reply) => {
      const path = limitPath(request);
      await write(request, reply, path, () => limits.deleteLimit(path.namespace, path.name, sentVersion(request)));
      return reply.send();
    },
  );
}

interface LimitPath {
  readonly namespace: string;
  readonly name: string;
}

function limitPath(request: FastifyRequest): LimitPath {
  return request.params as LimitPath;
}

function noLimit({ namespace, name }: LimitPath): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `there is no limit ${namespace}/${name}`, { field: 'name' });
}

function limitState({ namespace, name, declared, count }: InventoryLimit): LimitState {
  return { namespace, name, spec: declared.spec, ...countsOf(count), ...declaredState(declared) };
}
