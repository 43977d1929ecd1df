import { type Static, Type } from 'typebox';
import { engineDurationMs } from './engineUnits.ts';
import type { Problem } from './errors.ts';
import { groupSegmentProblem } from './groupsFile/groupName.ts';
import { memoryLimitProblem } from './groupsFile/memoryLimit.ts';
import { type Checked, compileCheck } from './validation.ts';

const MAX_INT = 2_147_483_647;

/** Whole number that JSON and the database both represent exactly. */
const Id = { minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const Count = { minimum: 0, maximum: MAX_INT } as const;
const nullable = <T extends Parameters<typeof Type.Optional>[0]>(type: T, description: string) =>
  Type.Optional(Type.Union([type, Type.Null()], { description }));

const fields = {
  name: Type.String({
    minLength: 1,
    maxLength: 250,
    description: `Name without dots; variables such as \${USER} stand for what the query has.`,
  }),
  softMemoryLimit: nullable(
    Type.String({ maxLength: 128 }),
    'Percentage of the memory such as `80%`, or a size such as `5GB`. May be absent only where the engine has made the column nullable.',
  ),
  maxQueued: nullable(Type.Integer(Count), 'Queries that may wait; 0 when absent.'),
  softConcurrencyLimit: nullable(Type.Integer(Count), 'Running queries beyond which the group yields to others.'),
  hardConcurrencyLimit: nullable(Type.Integer(Count), 'Queries that may run; 0 when absent.'),
  schedulingPolicy: nullable(Type.String({ maxLength: 128 }), 'fair, weighted, weighted_fair or query_priority.'),
  schedulingWeight: nullable(Type.Integer({ minimum: 1, maximum: MAX_INT }), 'Weight among the groups of the parent.'),
  jmxExport: nullable(Type.Boolean(), "Whether the engine shows the group's figures by JMX."),
  softCpuLimit: nullable(
    Type.String({ maxLength: 128 }),
    'CPU time of a quota period beyond which the group is slowed.',
  ),
  hardCpuLimit: nullable(Type.String({ maxLength: 128 }), 'CPU time of a quota period beyond which no query starts.'),
  parent: nullable(Type.Integer(Id), 'Id of the parent; none for a root.'),
  environment: nullable(
    Type.String({ maxLength: 128 }),
    "The engine's node.environment; it reads only groups of its own.",
  ),
};

/** A resource group in responses; null fields are omitted. */
export const ResourceGroup = Type.Object(
  {
    resourceGroupId: Type.Integer({ ...Id, description: 'Assigned by the database.' }),
    ...fields,
    maxQueued: Type.Integer(Count),
    hardConcurrencyLimit: Type.Integer(Count),
  },
  { $id: 'ResourceGroup', description: 'A resource group (spec: Resource group).' },
);

export const ResourceGroupCreate = Type.Object(
  { ...fields, resourceGroupId: nullable(Type.Literal(0), 'Must not be sent; null and 0 are taken as not sent.') },
  { $id: 'ResourceGroupCreate', additionalProperties: false },
);

export const ResourceGroupUpdate = Type.Object(
  { resourceGroupId: Type.Integer(Id), ...fields },
  {
    $id: 'ResourceGroupUpdate',
    additionalProperties: false,
    description: 'All columns: what is absent becomes null or 0.',
  },
);

export interface ResourceGroupColumns {
  readonly name: string;
  readonly softMemoryLimit: string | null;
  readonly maxQueued: number;
  readonly softConcurrencyLimit: number | null;
  readonly hardConcurrencyLimit: number;
  readonly schedulingPolicy: string | null;
  readonly schedulingWeight: number | null;
  readonly jmxExport: boolean | null;
  readonly softCpuLimit: string | null;
  readonly hardCpuLimit: string | null;
  readonly parent: number | null;
  readonly environment: string | null;
}

export interface ResourceGroupRow extends ResourceGroupColumns {
  readonly resourceGroupId: number;
}

const policies = ['fair', 'weighted', 'weighted_fair', 'query_priority'];
const checkCreate = compileCheck(ResourceGroupCreate);
const checkUpdate = compileCheck(ResourceGroupUpdate);

/** Checks a new group: types, ranges and values that the engine could not load. */
export function parseResourceGroupCreate(value: unknown): Checked<ResourceGroupColumns> {
  const checked = checkCreate(value);
  return checked.ok ? withRules(checked.value) : { ok: false, problems: checked.problems.map(better) };
}

export function parseResourceGroupUpdate(value: unknown): Checked<ResourceGroupRow> {
  const checked = checkUpdate(value);
  if (!checked.ok) return { ok: false, problems: checked.problems.map(better) };
  const columns = withRules(checked.value);
  if (!columns.ok) return columns;
  return { ok: true, value: { resourceGroupId: checked.value.resourceGroupId, ...columns.value } };
}

type ResourceGroupBody = Omit<Static<typeof ResourceGroupUpdate>, 'resourceGroupId'>;

/** Rules of single fields in addition to their types, as in the engine's ResourceGroupSpec and its name template. */
function withRules(body: ResourceGroupBody): Checked<ResourceGroupColumns> {
  const { name, softMemoryLimit = null, softConcurrencyLimit = null, schedulingPolicy = null } = body;
  const { schedulingWeight = null, jmxExport = null, softCpuLimit = null, hardCpuLimit = null } = body;
  const { maxQueued, hardConcurrencyLimit, parent = null, environment = null } = body;
  const columns: ResourceGroupColumns = {
    ...{ name, softMemoryLimit, maxQueued: maxQueued ?? 0, softConcurrencyLimit },
    hardConcurrencyLimit: hardConcurrencyLimit ?? 0,
    ...{ schedulingPolicy, schedulingWeight, jmxExport, softCpuLimit, hardCpuLimit, parent, environment },
  };
  const problems: Problem[] = [];
  const reject = (field: keyof ResourceGroupColumns, message: string | null) => {
    if (message !== null) problems.push({ field, message });
  };
  reject('name', groupSegmentProblem(columns.name));
  reject('softMemoryLimit', columns.softMemoryLimit === null ? null : memoryLimitProblem(columns.softMemoryLimit));
  if (columns.schedulingPolicy !== null && !policies.includes(columns.schedulingPolicy.toLowerCase())) {
    reject('schedulingPolicy', `must be one of ${policies.join(', ')}`);
  }
  for (const field of ['softCpuLimit', 'hardCpuLimit'] as const) {
    const text = columns[field];
    if (text !== null && engineDurationMs(text) === null) reject(field, 'must be a duration such as 30m or 1h');
  }
  reject('environment', controlProblem(columns.environment));
  return problems.length === 0 ? { ok: true, value: columns } : { ok: false, problems };
}

/**
 * Contradictory fields: the engine would reject its whole configuration (AbstractResourceConfigurationManager and
 * ResourceGroupSpec of the engine).
 */
export function contradictions(group: ResourceGroupColumns): readonly Problem[] {
  const problems: Problem[] = [];
  const { softConcurrencyLimit: soft, hardConcurrencyLimit: hard, softCpuLimit, hardCpuLimit } = group;
  if (soft !== null && soft > hard) {
    problems.push({ field: 'softConcurrencyLimit', message: `is ${soft}, more than hardConcurrencyLimit ${hard}` });
  }
  if (softCpuLimit !== null && hardCpuLimit === null) {
    problems.push({ field: 'hardCpuLimit', message: 'is required where softCpuLimit is given' });
  }
  if (softCpuLimit !== null && hardCpuLimit !== null) {
    if ((engineDurationMs(softCpuLimit) ?? 0) > (engineDurationMs(hardCpuLimit) ?? 0)) {
      problems.push({ field: 'softCpuLimit', message: `is ${softCpuLimit}, more than hardCpuLimit ${hardCpuLimit}` });
    }
  }
  return problems;
}

function controlProblem(text: string | null): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
  return text !== null && /[\x00-\x1f\x7f]/.test(text) ? 'must not hold control characters' : null;
}

function better(problem: Problem): Problem {
  if (problem.field !== 'resourceGroupId' || problem.message === 'is required') return problem;
  if (!problem.message.startsWith('must be 0')) return problem;
  return { field: problem.field, message: 'is assigned by the database; leave it out to create a group' };
}
