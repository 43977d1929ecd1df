import { Type } from 'typebox';
import {
  parseResourceGroupCreate,
  parseResourceGroupUpdate,
  ResourceGroup,
  type ResourceGroupColumns,
  ResourceGroupCreate,
  type ResourceGroupRow,
  ResourceGroupUpdate,
} from '../../model/resourceGroup.ts';
import { compileCheck } from '../../model/validation.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { requireLoadable } from '../errors.ts';
import { answer, reference } from '../schemas.ts';
import { GroupIdInPath, groupIdInPath, groupIdInQuery, groupQuery } from './groupId.ts';
import type { RestCalls } from './restCalls.ts';
import type { TableChange } from './tableChange.ts';
import type { WebappCalls } from './webappCalls.ts';

const row = reference(ResourceGroup);

export const groupCreation: TableChange<ResourceGroupColumns> = {
  body: reference(ResourceGroupCreate),
  row,
  parse: parseResourceGroupCreate,
  apply: async (store, columns) => {
    requireLoadable(columns);
    return { kind: 'ResourceGroup', before: null, ...(await store.groups.create(columns)) };
  },
};

export const groupUpdate: TableChange<ResourceGroupRow> = {
  body: reference(ResourceGroupUpdate),
  row,
  parse: parseResourceGroupUpdate,
  apply: async (store, group) => {
    requireLoadable(group);
    return { kind: 'ResourceGroup', ...(await store.groups.update(group)) };
  },
};

async function deleted(store: ResourceGroupStore, id: number): Promise<GroupWrite> {
  return { kind: 'ResourceGroup', before: await store.groups.delete(id), row: null, warnings: [] };
}

const ById = Type.Object({ resourceGroupId: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) });
const checkId = compileCheck(ById);
const warningText = 'The header Warning says what engines would stumble over as long as it is so.';

/** Resource groups below the product's path. */
export function groupRoutes(calls: RestCalls): void {
  const rows = answer('The groups.', Type.Array(row));
  const stored = 'The stored group.';
  const list = { summary: 'Lists all resource groups' };
  calls.list('/resourcegroup/read', list, rows, () => (store) => store.groups.all());
  const show = {
    summary: 'Shows a resource group',
    description: 'A list with it, or an empty one.',
    params: GroupIdInPath,
  };
  calls.list('/resourcegroup/read/:resourceGroupId', show, rows, (request) => {
    const id = groupIdInPath(request);
    return async (store) => [(await store.groups.get(id)) ?? []].flat();
  });
  const creation = { summary: 'Creates a resource group', description: `Answers with the assigned id. ${warningText}` };
  calls.change('/resourcegroup/create', creation, stored, groupCreation);
  const update = { summary: 'Overwrites a resource group', description: `All columns are overwritten. ${warningText}` };
  calls.change('/resourcegroup/update', update, stored, groupUpdate);
  const deletion = {
    summary: 'Deletes a resource group',
    description: 'An unknown id is no error; a group that selectors or other groups refer to is (409).',
    params: GroupIdInPath,
  };
  calls.delete('/resourcegroup/delete/:resourceGroupId', deletion, (request) => {
    const id = groupIdInPath(request);
    return (store) => deleted(store, id);
  });
}

export function webappGroupRoutes(calls: WebappCalls): void {
  calls.read('findResourceGroup', 'Lists resource groups', groupQuery, Type.Array(row), (store) => store.groups.all());
  calls.read('getResourceGroup', 'Shows a resource group', groupQuery, row, async (store, query) =>
    store.groups.get(groupIdInQuery(query)),
  );
  calls.change('saveResourceGroup', 'Creates a resource group', groupCreation);
  calls.change('updateResourceGroup', 'Overwrites a resource group', groupUpdate);
  calls.delete('deleteResourceGroup', 'Deletes a resource group', ById, checkId, (store, { resourceGroupId }) =>
    deleted(store, resourceGroupId),
  );
}
