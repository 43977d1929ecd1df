import { type Static, type TSchema, Type } from 'typebox';
import { cel, withoutDuplicates } from '../../model/cel.ts';
import {
  type FileGroup,
  type FileSelector,
  fileGroupFields,
  fileSelectorSchema,
  groupFields,
} from '../../model/groupsFile/groupFields.ts';
import { GatewayClassName } from '../../model/resource.ts';
import { closedObject, optionalChoice, optionalFlag, optionalText, suspendField } from '../fields/spec.ts';

export const RESOURCE_GROUP_CONFIGURATION = 'ResourceGroupConfiguration';
export const RESOURCE_GROUP_CONFIGURATIONS = 'resourcegroupconfigurations';

/** Deepest nesting of groups: schemas of the API server cannot refer to themselves. */
export const MAX_LEVELS = 8;
const MAX_DATABASES = 32;
const MAX_GROUPS = 10_000;
const MAX_SELECTORS = 10_000;

const { type: concurrency, description } = groupFields.hardConcurrencyLimit;
const hardConcurrencyLimit = concurrency({ description });

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
    { ...fileGroupFields, hardConcurrencyLimit, subGroups: Type.Optional(below) },
    {
      additionalProperties: false,
      description: 'A resource group of the engine.',
      // Below, a rule would count once for each group that there could be, which the API server rejects.
      ...(level === MAX_LEVELS
        ? cel(
            [
              '!self.name.contains(".")',
              'name must not hold a dot, which separates a group from its parent; declare the group in subGroups of its parent',
            ],
            [
              '!has(self.softConcurrencyLimit) || self.softConcurrencyLimit <= self.hardConcurrencyLimit',
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
      ...cel(withoutDuplicates('databases must not hold a name twice; remove one of them')),
      description:
        "Databases of the gateway's database server whose tables get the groups, as useSchema names them; the gateway's own by default.",
    }),
  ),
  prune: optionalFlag(
    'Whether groups of the environment that no resource declares are deleted, with their selectors.',
    { default: false },
  ),
  whenDrifted: optionalChoice(
    ['Repair', 'Report'],
    'When another program changed declared rows: they are put right, or only reported.',
    { default: 'Repair' },
  ),
  cpuQuotaPeriod: optionalText('Period of the CPU limits, such as 1h; of all groups of a database.', {
    maxLength: 255,
  }),
  suspend: suspendField('While true, nothing is written: the tables stay as they are.'),
  gatewayClassName: Type.Optional(GatewayClassName),
};

/** `spec` of a ResourceGroupConfiguration (docs/resource-groups.md#as-a-resource). */
export const ResourceGroupConfigurationSpec = closedObject(
  {
    ...ownFields,
    rootGroups: Type.Array(groupSchema(MAX_LEVELS), { maxItems: MAX_GROUPS, description: 'Groups without a parent.' }),
    selectors: Type.Array(fileSelectorSchema(), {
      maxItems: MAX_SELECTORS,
      description: 'Which group takes a query: the first selector that matches.',
    }),
  },
  "Resource groups of engines: the fields of the engine's resource-groups.json, and where they go.",
);

export interface ResourceGroupConfigurationSpec extends Static<ReturnType<typeof Type.Object<typeof ownFields>>> {
  readonly rootGroups: readonly FileGroup[];
  readonly selectors: readonly FileSelector[];
}
