import { Type } from 'typebox';
import type { Problem } from './errors.ts';
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

export const ResourceGroupCreate = Type.Object(
  {
    ...fields,
    resourceGroupId: Type.Optional(
      Type.Union([Type.Literal(0), Type.Null()], {
        description: 'Must not be sent; null and 0 are taken as not sent.',
      }),
    ),
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

/** Checks a new group: types, ranges and values that the engine could not load. */
export function parseResourceGroupCreate(value: unknown): Checked<ResourceGroupColumns> {
  if (isRecord(value) && value.resourceGroupId) {
    const message = 'is assigned by the database; leave it out to create a group';
    return { ok: false, problems: [{ field: 'resourceGroupId', message }] };
  }
  const checked = checkCreate(value);
  return checked.ok ? withRules(checked.value) : checked;
}

export function parseResourceGroupUpdate(value: unknown): Checked<ResourceGroupRow> {
  const checked = checkUpdate(value);
  if (!checked.ok) return checked;
  const columns = withRules(checked.value);
  return columns.ok
    ? { ok: true, value: { resourceGroupId: checked.value.resourceGroupId, ...columns.value } }
    : columns;
}

function withRules(
  body: Parameters<typeof limitsOf>[0] & { readonly parent?: number | null; readonly environment?: string | null },
): Checked<ResourceGroupColumns> {
  const columns = { ...limitsOf(body), parent: body.parent ?? null, environment: body.environment ?? null };
  const problem = controlProblem(columns.environment ?? '');
  const own: Problem[] = problem === null ? [] : [{ field: 'environment', message: problem }];
  const problems = [...valueProblems(columns), ...own];
  return problems.length === 0 ? { ok: true, value: columns } : { ok: false, problems };
}
