import { type Static, Type } from 'typebox';
import { engineDurationMs, engineSizeBytes } from '../engineUnits.ts';
import { isRecord } from '../record.ts';
import { type Checked, compileCheck } from '../validation.ts';

/** Largest value of the engine's integers. */
const MAX_INT = 2_147_483_647;
const Count = Type.Integer({ minimum: 0, maximum: MAX_INT });
const Text = Type.String({ maxLength: 4096 });

/** A group of the engine's file format, without the content of its sub-groups (Trino: `ResourceGroupSpec`). */
export const FileGroup = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 250 }),
    softMemoryLimit: Type.Optional(Text),
    maxQueued: Type.Optional(Count),
    softConcurrencyLimit: Type.Optional(Count),
    hardConcurrencyLimit: Type.Optional(Count),
    maxRunning: Type.Optional(Count),
    schedulingPolicy: Type.Optional(Text),
    schedulingWeight: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_INT })),
    subGroups: Type.Optional(Type.Array(Type.Unknown())),
    jmxExport: Type.Optional(Type.Boolean()),
    softCpuLimit: Type.Optional(Text),
    hardCpuLimit: Type.Optional(Text),
    hardPhysicalDataScanLimit: Type.Optional(Text),
  },
  { additionalProperties: false },
);
export type FileGroup = Static<typeof FileGroup>;

/** Estimates of a query for selectors: name, parser of its values (null: invalid), and the form of values. */
export const resourceEstimates = [
  ['executionTime', engineDurationMs, 'a duration such as 10m'],
  ['cpuTime', engineDurationMs, 'a duration such as 10m'],
  ['peakMemory', engineSizeBytes, 'a size such as 5GB'],
] as const;

/** A range of a resource estimate; both ends are inclusive. */
const Range = Type.Optional(
  Type.Object({ min: Type.Optional(Text), max: Type.Optional(Text) }, { additionalProperties: false }),
);

/** A selector of the engine's file format (Trino: `SelectorSpec`). */
export const FileSelector = Type.Object(
  {
    user: Type.Optional(Text),
    userGroup: Type.Optional(Text),
    originalUser: Type.Optional(Text),
    authenticatedUser: Type.Optional(Text),
    source: Type.Optional(Text),
    queryType: Type.Optional(Text),
    clientTags: Type.Optional(Type.Array(Text)),
    selectorResourceEstimate: Type.Optional(
      Type.Object({ executionTime: Range, cpuTime: Range, peakMemory: Range }, { additionalProperties: false }),
    ),
    group: Type.String({ minLength: 1, maxLength: 4096 }),
  },
  { additionalProperties: false },
);
export type FileSelector = Static<typeof FileSelector>;

/** The file itself (Trino: `ManagerSpec`). */
export const GroupsFileFields = Type.Object(
  {
    rootGroups: Type.Array(Type.Unknown()),
    selectors: Type.Array(Type.Unknown()),
    cpuQuotaPeriod: Type.Optional(Text),
    physicalDataScanQuotaPeriod: Type.Optional(Text),
  },
  { additionalProperties: false },
);

const checks = {
  group: compileCheck(FileGroup),
  selector: compileCheck(FileSelector),
  file: compileCheck(GroupsFileFields),
};

/** Checks the form of a group without its sub-groups; field names are relative to it. */
export function checkFileGroup(value: unknown): Checked<FileGroup> {
  return checks.group(withoutNulls(value));
}

/** Checks the form of a selector; field names are relative to it. */
export function checkFileSelector(value: unknown): Checked<FileSelector> {
  return checks.selector(withoutNulls(value));
}

export function checkGroupsFileFields(value: unknown): Checked<Static<typeof GroupsFileFields>> {
  return checks.file(withoutNulls(value));
}

/** The engine treats null fields as absent. Entries of lists stay. */
function withoutNulls(value: unknown): unknown {
  if (!isRecord(value)) return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(fields.map(([name, field]) => [name, withoutNulls(field)]));
}
