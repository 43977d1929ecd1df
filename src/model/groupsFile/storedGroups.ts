import type { Problem } from '../errors.ts';
import type { GlobalPropertyRow } from '../globalProperty.ts';
import { isRecord } from '../record.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../resourceGroup.ts';
import type { SelectorRow } from '../selector.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';

export interface GroupsFile {
  readonly cpuQuotaPeriod?: string;
  readonly rootGroups: readonly FileGroup[];
  readonly selectors: readonly FileSelector[];
}

export interface GroupRows {
  readonly groups: readonly ResourceGroupRow[];
  readonly selectors: readonly SelectorRow[];
  readonly properties: readonly GlobalPropertyRow[];
}

export interface StoredGroups {
  readonly file: GroupsFile;
  /** Rows of the file's selectors, in the same order. */
  readonly selectorRows: readonly SelectorRow[];
  readonly groupRows: ReadonlyMap<string, ResourceGroupRow>;
  /** Rows that cannot be represented in a file; engines load nothing with them. */
  readonly problems: readonly Problem[];
}

const MAX_DEPTH = 32;
const MAX_PROBLEMS = 100;

/** Environments of groups, sorted; engines only read groups of their own. */
export function environmentsOf(groups: readonly ResourceGroupRow[]): readonly string[] {
  return [...new Set(groups.flatMap(({ environment }) => environment ?? []))].sort();
}

/**
 * The tables' content for an environment, in the form of the file-based manager (Trino:
 * `DbResourceGroupConfigurationManager`).
 */
export function storedGroups({ groups, selectors, properties }: GroupRows, environment: string): StoredGroups {
  const own = groups.filter((group) => group.environment === environment);
  const problems: Problem[] = [];
  const children = Map.groupBy(own, ({ parent }) => parent);
  const groupRows = new Map<string, ResourceGroupRow>();
  const paths = new Map<number, string>();
  const fileGroups = (parent: ResourceGroupRow | null, depth: number): FileGroup[] => {
    const rows = children.get(parent?.resourceGroupId ?? null) ?? [];
    if (depth > MAX_DEPTH && parent !== null && rows.length > 0) {
      const message = `(${JSON.stringify(parent.name)}) is the parent of groups that are nested deeper than ${MAX_DEPTH} groups, which are left out`;
      problems.push({ field: `resource group ${parent.resourceGroupId}`, message });
      return [];
    }
    return rows.map((row) => {
      const above = parent === null ? null : paths.get(parent.resourceGroupId);
      const path = above == null ? row.name : `${above}.${row.name}`;
      paths.set(row.resourceGroupId, path);
      if (!groupRows.has(path)) groupRows.set(path, row);
      return fileGroup(row, fileGroups(row, depth + 1));
    });
  };
  const rootGroups = fileGroups(null, 1);
  const isWhole = problems.length === 0;
  for (const { resourceGroupId, name } of own) {
    if (!isWhole || paths.has(resourceGroupId)) continue;
    const message = `(${JSON.stringify(name)}) has a parent that is not a group of the environment ${environment}`;
    problems.push({ field: `resource group ${resourceGroupId}`, message });
  }
  const selectorRows = selectors.filter(({ resourceGroupId }) => paths.has(resourceGroupId));
  const period = properties.find(({ name }) => name === 'cpu_quota_period')?.value ?? null;
  const file = {
    ...(period === null ? {} : { cpuQuotaPeriod: period }),
    rootGroups,
    selectors: selectorRows.map((row) => fileSelector(row, paths.get(row.resourceGroupId) ?? '', problems)),
  };
  return { file, selectorRows, groupRows, problems: problems.slice(0, MAX_PROBLEMS) };
}

export function fileGroup(
  row: Omit<ResourceGroupColumns, 'parent' | 'environment'>,
  subGroups: FileGroup[],
): FileGroup {
  const { name, softMemoryLimit, maxQueued, softConcurrencyLimit, hardConcurrencyLimit } = row;
  const { schedulingPolicy, schedulingWeight, jmxExport, softCpuLimit, hardCpuLimit } = row;
  return {
    name,
    ...withoutNulls({ softMemoryLimit }),
    maxQueued,
    ...withoutNulls({ softConcurrencyLimit }),
    hardConcurrencyLimit,
    ...withoutNulls({ schedulingPolicy, schedulingWeight, jmxExport, softCpuLimit, hardCpuLimit }),
    ...(subGroups.length === 0 ? {} : { subGroups }),
  };
}

/**
 * Converts a selector to the file's form.
 * @param group path of its group
 * @param problems receives a problem for each omitted field that a file cannot represent
 */
export function fileSelector(row: SelectorRow, group: string, problems: Problem[]): FileSelector {
  const json = (field: 'clientTags' | 'selectorResourceEstimate', isRight: (value: unknown) => boolean): unknown => {
    const text = row[field];
    if (text === null) return null;
    const value = parsed(text);
    if (isRight(value)) return value;
    const of = row.id === null ? `selector of ${group} with priority ${row.priority}` : `selector ${row.id}`;
    problems.push({ field: of, message: `has a ${field} that is not of the form that engines read` });
    return null;
  };
  const fields = {
    user: row.userRegex,
    userGroup: row.userGroupRegex,
    originalUser: row.originalUserRegex,
    authenticatedUser: row.authenticatedUserRegex,
    source: row.sourceRegex,
    queryType: row.queryType,
    clientTags: json('clientTags', Array.isArray) as string[] | null,
    selectorResourceEstimate: json('selectorResourceEstimate', isRecord) as FileSelector['selectorResourceEstimate'],
  };
  return { ...withoutNulls(fields), group };
}

type WithoutNulls<T> = { [field in keyof T]?: NonNullable<T[field]> };

function withoutNulls<T extends object>(fields: T): WithoutNulls<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as WithoutNulls<T>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
