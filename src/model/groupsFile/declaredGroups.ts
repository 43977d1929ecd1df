import type { ResourceGroupColumns } from '../resourceGroup.ts';
import type { SelectorText } from '../selector.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';
import type { GroupsFile } from './storedGroups.ts';

export interface DeclaredGroup {
  /** Such as `global.adhoc`. */
  readonly path: string;
  /** Null: a root. */
  readonly parentPath: string | null;
  readonly columns: Omit<ResourceGroupColumns, 'parent' | 'environment'>;
}

export interface DeclaredSelector {
  readonly path: string;
  readonly priority: number;
  readonly texts: Readonly<Record<SelectorText, string | null>>;
}

export interface DeclaredRows {
  readonly groups: readonly DeclaredGroup[];
  readonly selectors: readonly DeclaredSelector[];
  /** Value of the global property; null: not declared. */
  readonly cpuQuotaPeriod: string | null;
}

/**
 * The rows of a file that `checkGroupsFile` accepts. Engines try selectors by priority, so that each has a lower one
 * than its predecessors.
 * @param firstPriority priority of the first selector; null: their number
 */
export function declaredRows(file: GroupsFile, firstPriority: number | null): DeclaredRows {
  const groups: DeclaredGroup[] = [];
  addGroups(file.rootGroups, null, groups);
  const highest = highestPriority(file, firstPriority);
  return {
    groups,
    selectors: file.selectors.map((selector, index) => declaredSelector(selector, highest - index)),
    cpuQuotaPeriod: file.cpuQuotaPeriod ?? null,
  };
}

/**
 * Priority of the first selector; each further one has one less.
 * @param firstPriority priority in the resource, or null
 */
export function highestPriority({ selectors }: Pick<GroupsFile, 'selectors'>, firstPriority: number | null): number {
  return firstPriority ?? selectors.length;
}

/** Value for a group without a memory limit if the column requires one: it is never reached. */
export const ALL_MEMORY = '100%';

export const noRows: DeclaredRows = { groups: [], selectors: [], cpuQuotaPeriod: null };

export function rootOf(path: string): string {
  const end = path.indexOf('.');
  return end === -1 ? path : path.slice(0, end);
}

function addGroups(groups: readonly FileGroup[], parentPath: string | null, rows: DeclaredGroup[]): void {
  for (const group of groups) {
    const path = parentPath === null ? group.name : `${parentPath}.${group.name}`;
    rows.push({ path, parentPath, columns: columnsOf(group) });
    addGroups((group.subGroups ?? []) as readonly FileGroup[], path, rows);
  }
}

export function columnsOf(group: FileGroup): DeclaredGroup['columns'] {
  const { name, softMemoryLimit = null, softConcurrencyLimit = null, schedulingPolicy = null } = group;
  const { schedulingWeight = null, jmxExport = null, softCpuLimit = null, hardCpuLimit = null } = group;
  return {
    ...{ name, softMemoryLimit, maxQueued: group.maxQueued ?? 0, softConcurrencyLimit },
    hardConcurrencyLimit: group.hardConcurrencyLimit ?? group.maxRunning ?? 0,
    ...{ schedulingPolicy, schedulingWeight, jmxExport, softCpuLimit, hardCpuLimit },
  };
}

function declaredSelector(selector: FileSelector, priority: number): DeclaredSelector {
  const json = (value: unknown): string | null => (value == null ? null : JSON.stringify(value));
  return {
    path: selector.group,
    priority,
    texts: {
      userRegex: selector.user ?? null,
      sourceRegex: selector.source ?? null,
      queryType: selector.queryType ?? null,
      clientTags: json(selector.clientTags),
      selectorResourceEstimate: json(selector.selectorResourceEstimate),
      userGroupRegex: selector.userGroup ?? null,
      originalUserRegex: selector.originalUser ?? null,
      authenticatedUserRegex: selector.authenticatedUser ?? null,
    },
  };
}
