import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { ROUTING_GROUP, RoutingGroupSpec } from '../kinds/routingGroup/spec.ts';
import { groupProblems } from '../kinds/routingGroup/validation.ts';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import type { WriteContext } from '../operator/registry/clusterRegistry.ts';
import type { InventoryGroup, LimitRegistry } from '../operator/registry/limitRegistry.ts';
import type { SpecWrite } from '../operator/registry/specWrites.ts';
import { newQueriesWithout } from '../routing/newQueries.ts';
import { takesNewQueries } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { GroupDetails, GroupState } from './answers/limits.ts';
import { countsOf, declaredState } from './limitAnswers.ts';
import { DeletedVersion, sentSpec, sentVersion, Version } from './limitBodies.ts';
import { ListPage, listPageOf } from './page.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, emptyWriteAnswers, errorAnswers, Force, reference, writeAnswers } from './schemas.ts';
import { AuditedWrites, apiFamily } from './writes/writeFamily.ts';

export interface GroupRoutes {
  readonly limits: Pick<LimitRegistry, 'groups' | 'group' | 'putGroup' | 'deleteGroup'>;
  readonly table: RoutingTableHolder;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
  readonly names: ProductNames;
}

const tags = ['routing groups'];
const { name: _name, gatewayClassName: _class, ...fields } = RoutingGroupSpec.properties;
const GroupUpdate = Type.Object(
  { ...fields, ...Version },
  {
    $id: 'GroupUpdate',
    additionalProperties: false,
    description: 'What holds for a routing group as a whole: what is absent has its default.',
  },
);

const GroupInPath = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 255, description: 'Name of the routing group, percent-encoded.' }),
});

/** Routing groups with their clusters, and what is declared of them (docs/rest-api.md#groups-and-limits). */
export async function groupRoutes(app: FastifyInstance, options: GroupRoutes): Promise<void> {
  const { limits, table, defaultGroup, names } = options;
  revalidate(app);
  const state = (name: string): GroupState | null => {
    const group = limits.group(name);
    return group === null ? null : groupState(group);
  };
  const writes = new AuditedWrites(names, apiFamily);
  const write = async (
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    change: (context: WriteContext) => Promise<SpecWrite>,
  ) => {
    const group = { object: `routing group ${name}`, kind: ROUTING_GROUP, name, before: state(name)?.spec ?? null };
    await writes.make(request, reply, group, change, () => state(name)?.spec ?? null);
    return state(name);
  };

  app.get(
    '/api/groups',
    {
      schema: {
        tags,
        summary: 'All routing groups with their clusters, limits and queues',
        description:
          'Those that have clusters or a resource; a resource whose name another one holds is listed as well. Carries an ETag.',
        querystring: ListPage,
        response: {
          200: answer('By name.', Type.Array(reference(GroupState))),
          ...notModified,
          ...errorAnswers(400),
        },
      },
    },
    (request, reply) => reply.send(listPageOf(limits.groups(), request.query, ({ name }) => name).map(groupState)),
  );

  app.get(
    '/api/groups/:name',
    {
      schema: {
        tags,
        summary: 'A routing group with its clusters, limits and queue',
        params: GroupInPath,
        response: { 200: answer('The group.', reference(GroupDetails)), ...notModified, ...errorAnswers(400, 404) },
      },
    },
    (request, reply) => {
      const name = groupInPath(request);
      const group = state(name);
      if (group === null) throw noGroup(name);
      const withoutTakers = newQueriesWithout(table.current, name, defaultGroup);
      return reply.send({ ...group, isDefault: name === defaultGroup, withoutTakers } satisfies GroupDetails);
    },
  );

  app.put(
    '/api/groups/:name',
    {
      schema: {
        tags,
        summary: 'Declares limits, queue and fallbacks of a routing group, or replaces what is declared',
        description: 'The group need not have clusters yet.',
        params: GroupInPath,
        querystring: Force,
        body: GroupUpdate,
        response: {
          ...writeAnswers('The group, in force.', reference(GroupState)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const name = groupInPath(request);
      const { spec, version } = sentSpec<RoutingGroupSpec>(request, GroupUpdate, (body) =>
        groupProblems({ ...(body as object), name }, name),
      );
      const after = await write(request, reply, name, ({ force }) => limits.putGroup(name, spec, { force, version }));
      if (after === null) throw new GatewayError('EG_CONFLICT', `the routing group ${name} was deleted meanwhile`);
      return reply.send(after);
    },
  );

  app.delete(
    '/api/groups/:name',
    {
      schema: {
        tags,
        summary: 'Deletes what is declared of a routing group',
        description: 'Its clusters stay.',
        params: GroupInPath,
        querystring: DeletedVersion,
        response: {
          ...emptyWriteAnswers('Deleted.'),
          ...errorAnswers(400, 403, 404, 409, 413, 503),
        },
      },
    },
    async (request, reply) => {
      const name = groupInPath(request);
      await write(request, reply, name, () => limits.deleteGroup(name, sentVersion(request)));
      return reply.send();
    },
  );
}

function groupInPath(request: FastifyRequest): string {
  return (request.params as { readonly name: string }).name;
}

function noGroup(name: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `there is no routing group ${name}: no cluster belongs to it`, {
    field: 'name',
  });
}

function groupState({ name, clusters, declared, count }: InventoryGroup): GroupState {
  return {
    name,
    clusters: clusters.map((cluster) => ({
      name: cluster.name,
      active: cluster.active,
      status: cluster.health.status,
      takesNewQueries: takesNewQueries(cluster),
      maxRunningQueries: cluster.maxRunningQueries ?? null,
    })),
    spec: declared?.spec ?? null,
    ...countsOf(count),
    ...(declared === null
      ? { inForce: false, message: 'nothing is declared of it', version: null, resource: null }
      : declaredState(declared)),
  };
}
