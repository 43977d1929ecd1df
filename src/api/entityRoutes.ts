import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../model/names.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import { ResourceGroup, ResourceGroupCreate, ResourceGroupUpdate } from '../model/resourceGroup.ts';
import { parseSelectorMatch, parseSelectorUpdate, Selector, SelectorMatch } from '../model/selector.ts';
import type { Checked } from '../model/validation.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import type { GroupWrite, ResourceGroupStore } from '../store/resourceGroupStore.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { groupCreation, groupUpdate } from './resourceGroups/groups.ts';
import type { TableChange } from './resourceGroups/tableChange.ts';
import { answer, emptyAnswer, errorAnswers, Force, reference, withoutNulls } from './schemas.ts';
import { warn } from './warnings.ts';
import { AuditedRegistry } from './writes/auditedRegistry.ts';
import { changeGroups } from './writes/groupChange.ts';
import { entityFamily } from './writes/writeFamily.ts';

export interface EntityRoutes {
  readonly registry: ClusterRegistry;
  readonly stores: GroupTables;
  readonly names: ProductNames;
}

const types = ['GATEWAY_BACKEND', 'RESOURCE_GROUP', 'SELECTOR'] as const;
type EntityType = (typeof types)[number];

const tags = ['entities'];
const EntityTypeName = Type.Unsafe<EntityType>({ type: 'string', enum: [...types] });
const UseSchema = {
  useSchema: Type.Optional(Type.String({ description: "Another database of the gateway's server." })),
};

/** The entity editor's calls (docs/compatibility.md#entities); resource groups and selectors keep every column. */
export async function entityRoutes(app: FastifyInstance, { registry, stores, names }: EntityRoutes): Promise<void> {
  const audited = new AuditedRegistry(registry, names, entityFamily);
  const parseCluster = clusterParser(names);
  const databaseOf = (request: FastifyRequest) => (request.query as { useSchema?: string }).useSchema ?? null;
  const use = (request: FastifyRequest, work: (store: ResourceGroupStore) => Promise<GroupWrite>) =>
    changeGroups(stores, request, databaseOf(request), work);

  app.get(
    '/entity',
    {
      schema: {
        tags,
        summary: 'Lists the types of entities',
        response: { 200: answer('The types.', Type.Array(EntityTypeName)) },
      },
    },
    (_request, reply) => reply.send(types),
  );

  app.get(
    '/entity/:entityType',
    {
      schema: {
        tags,
        summary: 'Lists all entities of a type',
        params: Type.Object({ entityType: EntityTypeName }),
        querystring: Type.Object(UseSchema),
        response: {
          200: answer(
            'The entities.',
            Type.Array(Type.Union([reference(RegistryCluster), reference(ResourceGroup), reference(Selector)])),
          ),
          ...errorAnswers(400, 404, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const { entityType } = request.params as { entityType: EntityType };
      if (entityType === 'GATEWAY_BACKEND') return reply.send(registry.all());
      const rows = await stores.use<readonly object[]>(databaseOf(request), (store) =>
        entityType === 'SELECTOR' ? store.selectors.all(null) : store.groups.all(),
      );
      return reply.send(rows.map(withoutNulls));
    },
  );

  app.post(
    '/entity',
    {
      schema: {
        tags,
        summary: 'Stores an entity',
        description:
          'GATEWAY_BACKEND: replaced, or added. RESOURCE_GROUP: overwritten where it has an id, created where not. SELECTOR: the first one of its group is overwritten, or one is created. Content-Type is ignored.',
        querystring: Type.Object({ entityType: EntityTypeName, ...UseSchema, ...Force.properties }),
        body: Type.Union([
          reference(RegistryClusterInput),
          reference(ResourceGroupCreate),
          reference(ResourceGroupUpdate),
          reference(SelectorMatch),
        ]),
        response: { 200: emptyAnswer('Stored.'), ...errorAnswers(400, 403, 404, 409, 413, 422, 503) },
      },
    },
    async (request, reply) => {
      const { entityType } = request.query as { entityType: EntityType };
      const body = jsonBody(request, 'any');
      if (entityType === 'GATEWAY_BACKEND') {
        await audited.store('update', request, reply, valid(parseCluster(body)));
        return reply.send();
      }
      const { warnings } =
        entityType === 'SELECTOR' ? await storeSelector(request, body) : await storeGroup(request, body);
      return warn(reply, warnings).send();
    },
  );

  const storeSelector = (request: FastifyRequest, body: unknown) => {
    // Checked as the new side of a change: its texts must be such that the engine can load them.
    const { update } = valid(
      inner(parseSelectorUpdate({ current: { resourceGroupId: 1 }, update: valid(parseSelectorMatch(body)) })),
    );
    return use(request, async (store) => ({ kind: 'Selector', ...(await store.selectors.replaceFirst(update)) }));
  };

  const storeGroup = (request: FastifyRequest, body: unknown) => {
    const hasId = Boolean((body as { resourceGroupId?: unknown } | null)?.resourceGroupId);
    return hasId ? changeGroup(request, body, groupUpdate) : changeGroup(request, body, groupCreation);
  };

  const changeGroup = <T>(request: FastifyRequest, body: unknown, change: TableChange<T>) => {
    const group = valid(change.parse(body));
    return use(request, (store) => change.apply(store, group));
  };
}

function valid<T>(checked: Checked<T>): T {
  if (!checked.ok) throw malformed(checked.problems);
  return checked.value;
}

function inner<T>(checked: Checked<T>): Checked<T> {
  if (checked.ok) return checked;
  return {
    ok: false,
    problems: checked.problems.map(({ field, message }) => ({ field: field.replace(/^update\./, ''), message })),
  };
}
