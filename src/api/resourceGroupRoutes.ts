import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../model/globalProperty.ts';
import type { ProductNames } from '../model/names.ts';
import {
  parseResourceGroupCreate,
  parseResourceGroupUpdate,
  ResourceGroup,
  ResourceGroupCreate,
  ResourceGroupUpdate,
} from '../model/resourceGroup.ts';
import {
  parseSelectorCreate,
  parseSelectorMatch,
  parseSelectorUpdate,
  Selector,
  SelectorCreate,
  SelectorMatch,
  SelectorUpdate,
} from '../model/selector.ts';
import type { Checked } from '../model/validation.ts';
import type { ResourceGroupStore } from '../store/resourceGroupStore.ts';
import type { SchemaStores } from '../store/schemaStores.ts';
import { malformed, requireLoadable } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { answer, emptyAnswer, errorAnswers, reference, withoutNulls } from './schemas.ts';
import { warn } from './warnings.ts';
import { auditedGroups } from './writes/auditedGroups.ts';

/** Dependencies of the resource group routes. */
export interface ResourceGroupRoutes {
  readonly stores: SchemaStores;
  readonly names: ProductNames;
}

const UseSchema = Type.Object({
  useSchema: Type.Optional(
    Type.String({ description: "Another database of the gateway's database server; its own when absent." }),
  ),
});
const GroupId = Type.Object({ resourceGroupId: Type.String({ description: 'Id of the resource group.' }) });
const PropertyName = Type.Object({ name: Type.String({ description: 'Name of the property.' }) });
const warned = 'The header Warning tells what engines would stumble over as long as it is so.';

/** Everything about a route but its path and what it does. */
interface RouteText {
  readonly summary: string;
  readonly description?: string;
  readonly params?: TSchema;
  readonly body?: TSchema;
  readonly success: TSchema;
  readonly errors: readonly number[];
}

/** Resource groups, selectors and global properties (docs/rest-api.md#resource-groups-selectors-global-properties). */
export async function resourceGroupRoutes(app: FastifyInstance, { stores, names }: ResourceGroupRoutes): Promise<void> {
  const base = `/${names.pathSegment}`;
  const withStore = <T>(request: FastifyRequest, work: (store: ResourceGroupStore) => Promise<T>): Promise<T> =>
    stores.use((request.query as { useSchema?: string }).useSchema ?? null, (store) =>
      work(auditedGroups(store, request)),
    );
  const schemaOf = (tag: string, { success, errors, ...text }: RouteText) => ({
    tags: [tag],
    querystring: UseSchema,
    ...text,
    response: { 200: success, ...errorAnswers(...errors) },
  });
  const get = (tag: string, path: string, text: RouteText, handler: Handler) =>
    app.get(`${base}${path}`, { schema: schemaOf(tag, text) }, handler);
  const post = (tag: string, path: string, text: RouteText, handler: Handler) =>
    app.post(`${base}${path}`, { schema: schemaOf(tag, text) }, handler);
  const reading = [400, 404, 422, 503];
  const writing = [400, 404, 409, 413, 422, 503];

  const groups = 'resource groups';
  const groupList = answer('The groups.', Type.Array(reference(ResourceGroup)));
  get(
    groups,
    '/resourcegroup/read',
    { summary: 'Lists all resource groups', success: groupList, errors: reading },
    async (request, reply) => {
      const rows = await withStore(request, (store) => store.groups.all());
      return reply.send(rows.map(withoutNulls));
    },
  );
  get(
    groups,
    '/resourcegroup/read/:resourceGroupId',
    {
      summary: 'Shows a resource group',
      description: 'A list with it, or an empty one.',
      params: GroupId,
      success: groupList,
      errors: reading,
    },
    async (request, reply) => {
      const id = groupIdOf(request);
      const row = await withStore(request, (store) => store.groups.get(id));
      return reply.send(row === null ? [] : [withoutNulls(row)]);
    },
  );
  post(
    groups,
    '/resourcegroup/create',
    {
      summary: 'Creates a resource group',
      description: `Answers with the assigned id. ${warned}`,
      body: reference(ResourceGroupCreate),
      success: answer('The stored group.', reference(ResourceGroup)),
      errors: writing,
    },
    async (request, reply) => {
      const columns = sent(request, parseResourceGroupCreate);
      requireLoadable(columns);
      const { row, warnings } = await withStore(request, (store) => store.groups.create(columns));
      return warn(reply, warnings).send(withoutNulls(row));
    },
  );
  post(
    groups,
    '/resourcegroup/update',
    {
      summary: 'Overwrites a resource group',
      description: `All columns are overwritten. ${warned}`,
      body: reference(ResourceGroupUpdate),
      success: answer('The stored group.', reference(ResourceGroup)),
      errors: writing,
    },
    async (request, reply) => {
      const group = sent(request, parseResourceGroupUpdate);
      requireLoadable(group);
      const { row, warnings } = await withStore(request, (store) => store.groups.update(group));
      return warn(reply, warnings).send(withoutNulls(row));
    },
  );
  post(
    groups,
    '/resourcegroup/delete/:resourceGroupId',
    {
      summary: 'Deletes a resource group',
      description: 'An unknown id is no error; a group that selectors or other groups refer to is (409).',
      params: GroupId,
      success: emptyAnswer('Deleted, or it was not there.'),
      errors: writing,
    },
    async (request, reply) => {
      const id = groupIdOf(request);
      await withStore(request, (store) => store.groups.delete(id));
      return reply.send();
    },
  );

  const selectors = 'selectors';
  const selectorList = answer('The selectors, highest priority first.', Type.Array(reference(Selector)));
  get(
    selectors,
    '/selector/read',
    { summary: 'Lists all selectors', success: selectorList, errors: reading },
    async (request, reply) => {
      const rows = await withStore(request, (store) => store.selectors.all(null));
      return reply.send(rows.map(withoutNulls));
    },
  );
  get(
    selectors,
    '/selector/read/:resourceGroupId',
    { summary: 'Lists the selectors of a resource group', params: GroupId, success: selectorList, errors: reading },
    async (request, reply) => {
      const id = groupIdOf(request);
      const rows = await withStore(request, (store) => store.selectors.all(id));
      return reply.send(rows.map(withoutNulls));
    },
  );
  post(
    selectors,
    '/selector/create',
    {
      summary: 'Creates a selector',
      description:
        'Without resourceGroupId it points to the newest group, which the answer and the header Warning name.',
      body: reference(SelectorCreate),
      success: answer('The stored selector.', reference(Selector)),
      errors: writing,
    },
    async (request, reply) => {
      const selector = sent(request, parseSelectorCreate);
      const { row, warnings } = await withStore(request, (store) => store.selectors.create(selector));
      return warn(reply, warnings).send(withoutNulls(row));
    },
  );
  post(
    selectors,
    '/selector/update',
    {
      summary: 'Changes a selector',
      description: 'Every row equal to current in all columns becomes update; without one, update is created.',
      body: reference(SelectorUpdate),
      success: answer('The stored selector.', reference(Selector)),
      errors: writing,
    },
    async (request, reply) => {
      const { current, update } = sent(request, parseSelectorUpdate);
      const { row, warnings } = await withStore(request, (store) => store.selectors.update(current, update));
      return warn(reply, warnings).send(withoutNulls(row));
    },
  );
  post(
    selectors,
    '/selector/delete',
    {
      summary: 'Deletes a selector',
      description: 'Every row equal in all columns; none is no error.',
      body: reference(SelectorMatch),
      success: emptyAnswer('Deleted, or it was not there.'),
      errors: writing,
    },
    async (request, reply) => {
      const selector = sent(request, parseSelectorMatch);
      await withStore(request, (store) => store.selectors.delete(selector));
      return reply.send();
    },
  );

  const properties = 'global properties';
  const propertyList = answer('The properties.', Type.Array(reference(StoredGlobalProperty)));
  get(
    properties,
    '/globalproperty/read',
    { summary: 'Lists all global properties', success: propertyList, errors: reading },
    async (request, reply) => {
      const rows = await withStore(request, (store) => store.properties.all());
      return reply.send(rows.map(withoutNulls));
    },
  );
  get(
    properties,
    '/globalproperty/read/:name',
    {
      summary: 'Shows a global property',
      description: 'A list with it, or an empty one.',
      params: PropertyName,
      success: propertyList,
      errors: reading,
    },
    async (request, reply) => {
      const name = propertyNameOf(request);
      const row = await withStore(request, (store) => store.properties.get(name));
      return reply.send(row === null ? [] : [withoutNulls(row)]);
    },
  );
  for (const operation of ['create', 'update'] as const) {
    post(
      properties,
      `/globalproperty/${operation}`,
      {
        summary: operation === 'create' ? 'Creates a global property' : 'Overwrites a global property',
        description:
          operation === 'create' ? 'One of that name is an error (409).' : 'An unknown name is an error (404).',
        body: reference(GlobalProperty),
        success: answer('The stored property.', reference(StoredGlobalProperty)),
        errors: writing,
      },
      async (request, reply) => {
        const property = sent(request, parseGlobalProperty);
        await withStore<unknown>(request, (store) => store.properties[operation](property));
        return reply.send(property);
      },
    );
  }
  post(
    properties,
    '/globalproperty/delete/:name',
    {
      summary: 'Deletes a global property',
      description: 'An unknown name is no error.',
      params: PropertyName,
      success: emptyAnswer('Deleted, or it was not there.'),
      errors: writing,
    },
    async (request, reply) => {
      const name = propertyNameOf(request);
      await withStore(request, (store) => store.properties.delete(name));
      return reply.send();
    },
  );
}

type Handler = (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>;

/** The body, checked. Callers of this family never had to send a Content-Type. */
function sent<T>(request: FastifyRequest, parse: (value: unknown) => Checked<T>): T {
  const checked = parse(jsonBody(request, 'any'));
  if (!checked.ok) throw malformed(checked.problems);
  return checked.value;
}

function groupIdOf(request: FastifyRequest): number {
  const { resourceGroupId } = request.params as { resourceGroupId: string };
  const id = Number(resourceGroupId);
  if (/^\d{1,16}$/.test(resourceGroupId) && Number.isSafeInteger(id)) return id;
  throw new GatewayError('EG_MALFORMED', 'resourceGroupId must be a whole number.', { field: 'resourceGroupId' });
}

function propertyNameOf(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  if (name.length <= 128 && !name.includes('\0')) return name;
  throw new GatewayError('EG_MALFORMED', 'name must have at most 128 characters, NUL not among them.', {
    field: 'name',
  });
}
