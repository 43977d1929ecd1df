import { Type } from 'typebox';
import {
  groupColumns,
  limitsOf,
  MAX_INT,
  nullableFields,
  type ResourceGroupColumns,
  ResourceGroupName,
  valueProblems,
} from './groupsFile/groupFields.ts';
import { controlProblem } from './groupsFile/groupName.ts';
import { isRecord } from './record.ts';
import { type Checked, compileCheck } from './validation.ts';

export type { ResourceGroupColumns } from './groupsFile/groupFields.ts';

/** Whole number that JSON and the database both represent exactly. */
const Id = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const Count = Type.Integer({ minimum: 0, maximum: MAX_INT });
const fields = { name: ResourceGroupName, ...nullableFields(groupColumns) };

/** A resource group in responses; null fields are omitted. */
export const ResourceGroup = Type.Object(
  {
    resourceGroupId: Type.Integer({ ...Id, description: 'Assigned by the database.' }),
    ...fields,
    maxQueued: Count,
    hardConcurrencyLimit: Count,
  },
  { $id: 'ResourceGroup', description: 'A resource group (spec: Resource group).' },
);

const unsent = { description: 'Must not be sent; null and 0 are taken as not sent.' };
export const ResourceGroupCreate = Type.Object(
  {
    ...fields,
    resourceGroupId: Type.Optional(Type.Union([Type.Literal(0), Type.Null()], unsent)),
  },
  {
    ...{ $id: 'ResourceGroupCreate', additionalProperties: false },
    description: 'Only where the engine has made its column nullable, softMemoryLimit may be absent.',
  },
);

export const ResourceGroupUpdate = Type.Object(
  { resourceGroupId: Type.Integer(Id), ...fields },
  {
    $id: 'ResourceGroupUpdate',
    additionalProperties: false,
    description: 'All columns: what is absent becomes null or 0.',
  },
);

export type ResourceGroupRow = ResourceGroupColumns & { readonly resourceGroupId: number };

const checkCreate = compileCheck(ResourceGroupCreate);
const checkUpdate = compileCheck(ResourceGroupUpdate);

/** Bodies with their checks: types, ranges and values that the engine could not load. */
export const groupBodies = {
  create: {
    schema: ResourceGroupCreate,
    parse: (value: unknown): Checked<ResourceGroupColumns> => {
      if (!isRecord(value) || !value.resourceGroupId) return rowOf(checkCreate(value));
      const message = 'is assigned by the database; leave it out to create a group';
      return { ok: false, problems: [{ field: 'resourceGroupId', message }] };
    },
  },
  update: { schema: ResourceGroupUpdate, parse: (value: unknown) => rowOf(checkUpdate(value)) },
};

function rowOf(checked: ReturnType<typeof checkCreate | typeof checkUpdate>): Checked<ResourceGroupRow> {
  if (!checked.ok) return checked;
  const { parent = null, environment = null, resourceGroupId } = checked.value;
  const row = { ...limitsOf(checked.value), parent, environment, resourceGroupId: resourceGroupId ?? 0 };
  const message = controlProblem(environment ?? '');
  const problems = [...valueProblems(row), ...(message === null ? [] : [{ field: 'environment', message }])];
  return problems.length === 0 ? { ok: true, value: row } : { ok: false, problems };
}
