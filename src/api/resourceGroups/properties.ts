import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../../model/globalProperty.ts';
import { compileCheck } from '../../model/validation.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { answer, reference } from '../schemas.ts';
import type { RestCalls } from './restCalls.ts';
import type { TableChange } from './tableChange.ts';
import { useSchema, type WebappCalls } from './webappCalls.ts';

const row = reference(StoredGlobalProperty);

const propertyChange = (operation: 'create' | 'update'): TableChange<GlobalProperty> => ({
  body: reference(GlobalProperty),
  row,
  parse: parseGlobalProperty,
  apply: async (store, property) => {
    const before = (await store.properties[operation](property)) ?? null;
    return { kind: 'GlobalProperty', before, row: property, warnings: [] };
  },
});

async function deleted(store: ResourceGroupStore, name: string): Promise<GroupWrite> {
  return { kind: 'GlobalProperty', before: await store.properties.delete(name), row: null, warnings: [] };
}

const PropertyInPath = Type.Object({ name: Type.String({ description: 'Name of the property.' }) });
const PropertyQuery = Type.Object({
  useSchema,
  name: Type.Optional(Type.Union([Type.String({ maxLength: 128, pattern: '^[^\\x00]*$' }), Type.Null()])),
});
const propertyQuery = { body: PropertyQuery, parse: compileCheck(PropertyQuery) };
const ByName = Type.Object({ name: GlobalProperty.properties.name });
const checkName = compileCheck(Type.Object({ name: Type.String({ maxLength: 128, pattern: '^[^\\x00]*$' }) }));

/** Global properties below the product's path. */
export function propertyRoutes(calls: RestCalls): void {
  const rows = answer('The properties.', Type.Array(row));
  const stored = 'The stored property.';
  const list = { summary: 'Lists all global properties' };
  calls.list('/globalproperty/read', list, rows, () => (store) => store.properties.all());
  const show = {
    summary: 'Shows a global property',
    description: 'A list with it, or an empty one.',
    params: PropertyInPath,
  };
  calls.list('/globalproperty/read/:name', show, rows, (request) => {
    const name = propertyInPath(request);
    return async (store) => [(await store.properties.get(name)) ?? []].flat();
  });
  const creation = { summary: 'Creates a global property', description: 'One of that name is an error (409).' };
  calls.change('/globalproperty/create', creation, stored, propertyChange('create'));
  const update = { summary: 'Overwrites a global property', description: 'An unknown name is an error (404).' };
  calls.change('/globalproperty/update', update, stored, propertyChange('update'));
  const deletion = {
    summary: 'Deletes a global property',
    description: 'An unknown name is no error.',
    params: PropertyInPath,
  };
  calls.delete('/globalproperty/delete/:name', deletion, (request) => {
    const name = propertyInPath(request);
    return (store) => deleted(store, name);
  });
}

/** Global properties for the web application. */
export function webappPropertyRoutes(calls: WebappCalls): void {
  calls.read('findGlobalProperty', 'Lists global properties', propertyQuery, Type.Array(row), (store) =>
    store.properties.all(),
  );
  calls.read('getGlobalProperty', 'Shows a global property', propertyQuery, row, async (store, { name }) => {
    if (!name) throw new GatewayError('EG_MALFORMED', 'Name cannot be null!', { field: 'name' });
    return await store.properties.get(name);
  });
  calls.change('saveGlobalProperty', 'Creates a global property', propertyChange('create'));
  calls.change('updateGlobalProperty', 'Overwrites a global property', propertyChange('update'));
  calls.delete('deleteGlobalProperty', 'Deletes a global property', ByName, checkName, (store, { name }) =>
    deleted(store, name),
  );
}

function propertyInPath(request: FastifyRequest): string {
  const { name } = request.params as { name: string };
  if (name.length <= 128 && !name.includes('\0')) return name;
  throw new GatewayError('EG_MALFORMED', 'name must have at most 128 characters, NUL not among them.', {
    field: 'name',
  });
}
