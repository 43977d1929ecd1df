import { type Static, type TSchema, Type } from 'typebox';
import { cel } from '../../model/cel.ts';
import { GatewayClassName } from '../../model/gatewayClass.ts';
import type { FileGroup, FileSelector } from '../../model/groupsFile/groupFields.ts';
import type { Resource } from '../../model/resource.ts';
import { closedObject, optionalChoice, optionalFlag, optionalInteger, optionalText } from '../fields/spec.ts';

export const RESOURCE_GROUP_CONFIGURATION = 'ResourceGroupConfiguration';
export const RESOURCE_GROUP_CONFIGURATIONS = 'resourcegroupconfigurations';

/** Deepest nesting of groups: schemas of the API server cannot refer to themselves. */
export const MAX_LEVELS = 8;
const MAX_DATABASES = 32;
const MAX_GROUPS = 10_000;
const MAX_SELECTORS = 10_000;
/** Largest value of the engine's integers. */
const MAX_INT = 2_147_483_647;

const count = (description: string) => optionalInteger(0, MAX_INT, description);
const text = (maxLength: number, description: string) => optionalText(description, { maxLength });

const groupFields = {
  name: Type.String({
    minLength: 1,
    maxLength: 250,
    description: `Name without dots; variables such as \${USER} stand for what the query has.`,
  }),
  softMemoryLimit: text(128, 'Percentage of the memory such as 80%, or a size such as 5GB.'),
  maxQueued: count('Queries that may wait; 0 by default.'),
  softConcurrencyLimit: count('Running queries beyond which the group yields to others.'),
  hardConcurrencyLimit: count('Queries that may run.'),
  maxRunning: count('Former name of hardConcurrencyLimit.'),
  schedulingPolicy: text(128, 'fair, weighted, weighted_fair or query_priority.'),
  schedulingWeight: optionalInteger(1, MAX_INT, 'Weight among the groups of the parent.'),
  jmxExport: optionalFlag("Whether the engine shows the group's figures by JMX."),
  softCpuLimit: text(128, 'CPU time of a quota period beyond which the group is slowed.'),
  hardCpuLimit: text(128, 'CPU time of a quota period beyond which no query starts.'),
};

/** A group with what may be below it. @param level of the deepest one, 1 */
function groupSchema(level: number): TSchema {
  const below =
    level === 1
      ? Type.Array(Type.Object({}), {
          maxItems: 0,
          description: `None: groups are nested at most ${MAX_LEVELS} deep.`,
        })
      : Type.Array(groupSchema(level - 1), { maxItems: MAX_GROUPS, description: 'Groups below it.' });
  return Type.Object(
    { ...groupFields, subGroups: Type.Optional(below) },
    {
      additionalProperties: false,
      description: 'A resource group of the engine.',
      // Below, a rule would count once for each group that there could be, which the API server rejects.
      ...(level === MAX_LEVELS
        ? cel(
            ['!self.name.contains(".")', 'name must not hold a dot, which separates a group from its parent'],
            ['has(self.hardConcurrencyLimit) || has(self.maxRunning)', 'hardConcurrencyLimit is required'],
            [
              '!has(self.softConcurrencyLimit) || !has(self.hardConcurrencyLimit) || self.softConcurrencyLimit <= self.hardConcurrencyLimit',
              'softConcurrencyLimit must be at most hardConcurrencyLimit',
            ],
            [
              '!has(self.softCpuLimit) || has(self.hardCpuLimit)',
              'hardCpuLimit is required where softCpuLimit is given',
            ],
          )
        : {}),
    },
  );
}

const range = (what: string) =>
  Type.Optional(
    closedObject(
      { min: text(128, 'Least value, which belongs to it.'), max: text(128, 'Greatest value, which belongs to it.') },
      `Range of the ${what} that the client estimates.`,
    ),
  );
const regex = (what: string, maxLength = 512) =>
  text(maxLength, `Regular expression (Java's syntax) that the ${what} must match whole.`);

const Selector = closedObject(
  {
    user: regex('user'),
    userGroup: regex('name of a group of the user', 2_048),
    originalUser: regex('original user'),
    authenticatedUser: regex('authenticated user'),
    source: regex('source'),
    queryType: text(
      512,
      'SELECT, EXPLAIN, DESCRIBE, INSERT, UPDATE, DELETE, MERGE, ANALYZE, ALTER_TABLE_EXECUTE or DATA_DEFINITION.',
    ),
    clientTags: Type.Optional(
      Type.Array(Type.String({ maxLength: 512 }), { maxItems: 256, description: 'Tags that the query must have.' }),
    ),
    selectorResourceEstimate: Type.Optional(
      closedObject(
        { executionTime: range('run time'), cpuTime: range('CPU time'), peakMemory: range('memory') },
        'Estimates that the client must send.',
      ),
    ),
    group: Type.String({
      minLength: 1,
      maxLength: 4_096,
      description: 'Path of the group that takes the query, such as global.adhoc.',
    }),
  },
  'Which queries a group takes: all conditions that are set must hold.',
);

const ownFields = {
  environment: Type.String({
    minLength: 1,
    maxLength: 128,
    pattern: '^[^\\x00-\\x1f\\x7f]+$',
    description: "The engines' node.environment: they read only groups of their own.",
  }),
  databases: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9_$-]+$' }), {
      minItems: 1,
      maxItems: MAX_DATABASES,
      ...cel(['self.all(x, self.exists_one(y, x == y))', 'databases must not hold a name twice']),
      description:
        "Databases of the gateway's database server whose tables get the groups, as useSchema names them; the gateway's own by default.",
    }),
  ),
  prune: optionalFlag(
    'Whether groups of the environment that no resource declares are deleted, with their selectors.',
    { default: false },
  ),
  onDrift: optionalChoice(
    ['repair', 'report'],
    'What happens where somebody else changed declared rows: they are put right, or only reported.',
    { default: 'repair' },
  ),
  firstPriority: optionalInteger(
    1,
    MAX_INT,
    'Priority of the first selector; each further one is one lower. As many as there are selectors by default. It orders selectors of several resources, and of rows without one.',
  ),
  cpuQuotaPeriod: text(255, 'Period of the CPU limits, such as 1h; of all groups of a database.'),
  gatewayClassName: Type.Optional(GatewayClassName),
};

/** `spec` of a ResourceGroupConfiguration (docs/resource-groups.md#as-a-resource). */
export const ResourceGroupConfigurationSpec = closedObject(
  {
    ...ownFields,
    rootGroups: Type.Array(groupSchema(MAX_LEVELS), { maxItems: MAX_GROUPS, description: 'Groups without a parent.' }),
    selectors: Type.Array(Selector, {
      maxItems: MAX_SELECTORS,
      description: 'Which group takes a query: the first selector that matches.',
    }),
  },
  "Resource groups of engines: the fields of the engine's resource-groups.json, and where they go.",
  [
    '!has(self.firstPriority) || self.firstPriority >= self.selectors.size()',
    'firstPriority must be at least the number of selectors',
  ],
);

type OwnFields = { [field in keyof typeof ownFields]: (typeof ownFields)[field] };

export interface ResourceGroupConfigurationSpec extends Static<ReturnType<typeof Type.Object<OwnFields>>> {
  readonly rootGroups: readonly FileGroup[];
  readonly selectors: readonly FileSelector[];
}

export type ResourceGroupConfiguration = Resource<ResourceGroupConfigurationSpec>;
