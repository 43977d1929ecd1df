import { type Static, type TNull, type TOptional, type TSchema, type TUnion, Type } from 'typebox';
import { engineDurationMs, engineSizeBytes } from '../engineUnits.ts';
import { GatewayError, type Problem } from '../errors.ts';
import { isRecord } from '../record.ts';
import { type Checked, compileCheck } from '../validation.ts';
import { groupSegmentProblem } from './groupName.ts';

/** Largest value of the engine's integers. */
export const MAX_INT = 2_147_483_647;
const MAX_TEXT = 4096;

const field = <T extends TSchema>(type: (options: object) => T, description: string) => ({ type, description });
const text = (maxLength: number) => (options: object) => Type.String({ maxLength, ...options });
const integer = (minimum: number, maximum: number) => (options: object) =>
  Type.Integer({ minimum, maximum, ...options });

export const ResourceGroupName = Type.String({
  minLength: 1,
  maxLength: 250,
  description: `Name without dots; variables such as \${USER} stand for what the query has.`,
});

/** The column of a field in the engine's tables. */
export function columnOf(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Fields of a group in addition to its name, in files and in tables. */
export const groupFields = {
  softMemoryLimit: field(text(128), 'Percentage of the memory such as 80%, or a size such as 5GB.'),
  maxQueued: field(integer(0, MAX_INT), 'Queries that may wait; 0 by default.'),
  softConcurrencyLimit: field(integer(0, MAX_INT), 'Running queries beyond which the group yields to others.'),
  hardConcurrencyLimit: field(integer(0, MAX_INT), 'Queries that may run.'),
  schedulingPolicy: field(text(128), 'fair, weighted, weighted_fair or query_priority.'),
  schedulingWeight: field(integer(1, MAX_INT), 'Weight among the groups of the parent.'),
  jmxExport: field((options) => Type.Boolean({ ...options }), "Whether the engine shows the group's figures by JMX."),
  softCpuLimit: field(text(128), 'CPU time of a quota period beyond which the group is slowed.'),
  hardCpuLimit: field(text(128), 'CPU time of a quota period beyond which no query starts.'),
};

/** Columns of a group in addition to its name. */
export const groupColumns = {
  ...groupFields,
  parent: field(integer(1, Number.MAX_SAFE_INTEGER), 'Id of the parent; none for a root.'),
  environment: field(text(128), "The engine's node.environment; it reads only groups of its own."),
};

type TypeOf<F> = F extends { readonly type: (options: object) => infer T } ? T : never;
interface Field {
  readonly type: (options: object) => TSchema;
  readonly description: string;
}

/** The schema of each field, which may be left out. */
function optionalFields<F extends Readonly<Record<string, Field>>>(fields: F) {
  const schemas = Object.entries(fields).map(([name, { type, description }]) => [
    ...[name, Type.Optional(type({ description }))],
  ]);
  return Object.fromEntries(schemas) as { [N in keyof F]: TOptional<TypeOf<F[N]>> };
}

/** The schema of each field, which may be null or left out. */
export function nullableFields<F extends Readonly<Record<string, Field>>>(fields: F) {
  const schemas = Object.entries(fields).map(([name, { type, description }]) => [
    ...[name, Type.Optional(Type.Union([type({}), Type.Null()], { description }))],
  ]);
  return Object.fromEntries(schemas) as { [N in keyof F]: TOptional<TUnion<[TypeOf<F[N]>, TNull]>> };
}

/** Columns of a group: all but two may be null. */
export type ResourceGroupColumns = { readonly name: string } & {
  readonly [C in keyof typeof groupColumns]:
    | Static<TypeOf<(typeof groupColumns)[C]>>
    | (C extends 'maxQueued' | 'hardConcurrencyLimit' ? never : null);
};

/** Columns of a group without its place. */
export type GroupLimits = Omit<ResourceGroupColumns, 'parent' | 'environment'>;

/** Fields of a group of a file, and of a resource. */
export const fileGroupFields = { name: ResourceGroupName, ...optionalFields(groupFields) };

/** A group of the engine's file format, without the content of its sub-groups (Trino: `ResourceGroupSpec`). */
const FileGroupSchema = Type.Object(
  {
    ...fileGroupFields,
    /** Former name of hardConcurrencyLimit. */
    maxRunning: Type.Optional(integer(0, MAX_INT)({})),
    subGroups: Type.Optional(Type.Array(Type.Unknown())),
    hardPhysicalDataScanLimit: Type.Optional(text(MAX_TEXT)({})),
  },
  { additionalProperties: false },
);
export type FileGroup = Omit<Static<typeof FileGroupSchema>, 'subGroups'> & { subGroups?: FileGroup[] };

/** Columns of a group of a file, or of the body of a call. */
export function limitsOf(
  group: { readonly name: string; readonly maxRunning?: number } & {
    readonly [F in keyof typeof groupFields]?: GroupLimits[F] | null | undefined;
  },
): GroupLimits {
  const fields = Object.keys(groupFields) as (keyof typeof groupFields)[];
  return {
    ...{ name: group.name, ...Object.fromEntries(fields.map((name) => [name, group[name] ?? null])) },
    maxQueued: group.maxQueued ?? 0,
    hardConcurrencyLimit: group.hardConcurrencyLimit ?? group.maxRunning ?? 0,
  } as GroupLimits;
}

/** A group in the form of files. */
export function fileGroup(limits: GroupLimits, subGroups: FileGroup[]): FileGroup {
  const fields = (['name', ...Object.keys(groupFields)] as (keyof GroupLimits)[]).map((name) => [name, limits[name]]);
  const present = Object.fromEntries(fields.filter(([, value]) => value !== null)) as FileGroup;
  return subGroups.length === 0 ? present : { ...present, subGroups };
}

const policies: readonly string[] = ['fair', 'weighted', 'weighted_fair', 'query_priority'];

/** Fields with values that the engine could not load (Trino: `ResourceGroupSpec`, `ResourceGroupNameTemplate`). */
export function valueProblems({ name, softMemoryLimit, schedulingPolicy, ...group }: GroupLimits): readonly Problem[] {
  const isKnown = schedulingPolicy === null || policies.includes(schedulingPolicy.toLowerCase());
  const messages: readonly (readonly [field: string, message: string | null])[] = [
    ['name', groupSegmentProblem(name)],
    ['softMemoryLimit', softMemoryLimit === null ? null : memoryLimitProblem(softMemoryLimit)],
    ['schedulingPolicy', isKnown ? null : `must be one of ${policies.join(', ')}`],
    ...(['softCpuLimit', 'hardCpuLimit'] as const).map((limit) => {
      const value = group[limit];
      const isDuration = value === null || engineDurationMs(value) !== null;
      return [limit, isDuration ? null : 'must be a duration such as 30m or 1h'] as const;
    }),
  ];
  return messages.flatMap(([at, message]) => (message === null ? [] : [{ field: at, message }]));
}

/** Contradictory fields: the engine would reject its whole configuration (Trino: `ResourceGroupSpec`). */
export function contradictions(group: GroupLimits): readonly Problem[] {
  const problems: Problem[] = [];
  const { softConcurrencyLimit: soft, hardConcurrencyLimit: hard, softCpuLimit, hardCpuLimit } = group;
  if (soft !== null && soft > hard) {
    problems.push({ field: 'softConcurrencyLimit', message: `is ${soft}, more than hardConcurrencyLimit ${hard}` });
  }
  if (softCpuLimit !== null && hardCpuLimit === null) {
    problems.push({ field: 'hardCpuLimit', message: 'is required where softCpuLimit is given' });
  } else if ((engineDurationMs(softCpuLimit ?? '0s') ?? 0) > (engineDurationMs(hardCpuLimit ?? '') ?? Infinity)) {
    problems.push({ field: 'softCpuLimit', message: `is ${softCpuLimit}, more than hardCpuLimit ${hardCpuLimit}` });
  }
  return problems;
}

/** Kinds of queries in selectors (Trino: `QueryType`), case-insensitive. */
export const queryTypes: readonly string[] =
  'SELECT EXPLAIN DESCRIBE INSERT UPDATE DELETE MERGE ANALYZE ALTER_TABLE_EXECUTE DATA_DEFINITION'.split(' ');

export function isQueryType(type: string): boolean {
  return queryTypes.includes(type.toUpperCase());
}

const regex = (what: string) => `Regular expression (Java's syntax) that the ${what} must match whole.`;
const condition = (width: number, description: string) => ({ width, description, type: text(width) });

/** Conditions of a selector by field of the REST API, with the characters that the table has room for. */
export const selectorFields = {
  userRegex: condition(512, regex('user')),
  userGroupRegex: condition(2_048, regex('name of a group of the user')),
  originalUserRegex: condition(512, regex('original user')),
  authenticatedUserRegex: condition(512, regex('authenticated user')),
  sourceRegex: condition(512, regex('source')),
  queryType: condition(
    512,
    'SELECT, EXPLAIN, DESCRIBE, INSERT, UPDATE, DELETE, MERGE, ANALYZE, ALTER_TABLE_EXECUTE or DATA_DEFINITION.',
  ),
  clientTags: condition(512, 'JSON list of tags that the query must have, as text: `["a","b"]`.'),
  selectorResourceEstimate: condition(
    1_024,
    'JSON object with ranges of executionTime, cpuTime and peakMemory, as text.',
  ),
};

export type SelectorText = keyof typeof selectorFields;
export const selectorTextNames = Object.keys(selectorFields) as SelectorText[];
/** Conditions of a selector as the table has them; null: none. */
export type SelectorTexts = Readonly<Record<SelectorText, string | null>>;

/** Rejects conditions that the table has no column for. @param prefix of the field in the message */
export function requireSelectorColumns(selector: SelectorTexts, columns: ReadonlySet<string>, prefix: string): void {
  const name = selectorTextNames.find((each) => selector[each] !== null && !columns.has(columnOf(each)));
  if (name === undefined) return;
  const message = `${prefix}${name} has no place: selectors lacks the column ${columnOf(name)}, which the engine's own migrations add.`;
  throw new GatewayError('EG_IMPOSSIBLE', message, { field: prefix + name });
}

/** The field of a condition in files. */
export function fileFieldOf(name: SelectorText) {
  return name.replace(/Regex$/, '') as Exclude<keyof FileSelector, 'group'>;
}

/** The same for each condition of a selector. */
export function mapSelectorFields<T>(map: (name: SelectorText) => T): Record<SelectorText, T> {
  return Object.fromEntries(selectorTextNames.map((name) => [name, map(name)])) as Record<SelectorText, T>;
}

/** Estimates of a query for selectors: name, parser of its values (null: invalid), and the form of values. */
export const resourceEstimates = [
  ['executionTime', engineDurationMs, 'a duration such as 10m'],
  ['cpuTime', engineDurationMs, 'a duration such as 10m'],
  ['peakMemory', engineSizeBytes, 'a size such as 5GB'],
] as const;

const closed = (description: string) => ({ additionalProperties: false, description });
const range = (what: string) =>
  Type.Optional(
    Type.Object(
      {
        min: Type.Optional(text(128)({ description: 'Least value, which belongs to it.' })),
        max: Type.Optional(text(128)({ description: 'Greatest value, which belongs to it.' })),
      },
      closed(`Range of the ${what} that the client estimates.`),
    ),
  );

/**
 * Schema of a selector of the engine's file format (Trino: `SelectorSpec`).
 * @param widest most characters of a condition; left out, as many as the table has room for
 */
export function fileSelectorSchema(widest?: number) {
  const of = ({ width, description }: { readonly width: number; readonly description: string }) =>
    Type.Optional(text(widest ?? width)({ description }));
  return Type.Object(
    {
      user: of(selectorFields.userRegex),
      userGroup: of(selectorFields.userGroupRegex),
      originalUser: of(selectorFields.originalUserRegex),
      authenticatedUser: of(selectorFields.authenticatedUserRegex),
      source: of(selectorFields.sourceRegex),
      queryType: of(selectorFields.queryType),
      clientTags: Type.Optional(
        Type.Array(text(widest ?? 512)({}), {
          ...(widest === undefined ? { maxItems: 256 } : {}),
          description: 'Tags that the query must have.',
        }),
      ),
      selectorResourceEstimate: Type.Optional(
        Type.Object(
          { executionTime: range('run time'), cpuTime: range('CPU time'), peakMemory: range('memory') },
          closed('Estimates that the client must send.'),
        ),
      ),
      group: Type.String({
        ...{ minLength: 1, maxLength: MAX_TEXT },
        description: 'Path of the group that takes the query, such as global.adhoc.',
      }),
    },
    closed('Which queries a group takes: all conditions that are set must hold.'),
  );
}
const FileSelectorSchema = fileSelectorSchema(MAX_TEXT);
export type FileSelector = Static<typeof FileSelectorSchema>;

/** Values of a selector that the engine could not load, in addition to its expressions. */
export function selectorProblems({ queryType, selectorResourceEstimate = {} }: FileSelector): readonly Problem[] {
  const problems: Problem[] = [];
  if (queryType !== undefined && !isQueryType(queryType)) {
    problems.push({ field: 'queryType', message: `must be one of ${queryTypes.join(', ')}` });
  }
  for (const [name, read, form] of resourceEstimates) {
    for (const [end, value] of Object.entries(selectorResourceEstimate[name] ?? {})) {
      if (read(value) !== null) continue;
      problems.push({ field: `selectorResourceEstimate.${name}.${end}`, message: `must be ${form}` });
    }
  }
  return problems;
}

/** The file itself (Trino: `ManagerSpec`). */
const GroupsFileFields = Type.Object(
  {
    rootGroups: Type.Array(Type.Unknown()),
    selectors: Type.Array(Type.Unknown()),
    cpuQuotaPeriod: Type.Optional(text(MAX_TEXT)({})),
    physicalDataScanQuotaPeriod: Type.Optional(text(MAX_TEXT)({})),
  },
  { additionalProperties: false },
);

const checks = {
  group: compileCheck(FileGroupSchema),
  selector: compileCheck(FileSelectorSchema),
  file: compileCheck(GroupsFileFields),
};

/** Checks the form of a group without its sub-groups; field names are relative to it. */
export function checkFileGroup(value: unknown): Checked<FileGroup> {
  return checks.group(withoutNulls(value)) as Checked<FileGroup>;
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
  const fields = Object.entries(value).filter(([, entry]) => entry !== null);
  return Object.fromEntries(fields.map(([name, entry]) => [name, withoutNulls(entry)]));
}

/** Number of a percentage such as `80%`; null if invalid. */
export function percentage(text: string): number | null {
  const [, number] = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text) ?? [];
  return number === undefined ? null : Number(number);
}

/** Returns the mistake in a `softMemoryLimit`, or null. */
export function memoryLimitProblem(text: string): string | null {
  const percents = percentage(text);
  if (percents !== null) return percents <= 100 ? null : 'must be at most 100%';
  if (engineSizeBytes(text) !== null) return null;
  return 'must be a percentage such as 80% or a size such as 5GB (B, kB, MB, GB, TB, PB)';
}
