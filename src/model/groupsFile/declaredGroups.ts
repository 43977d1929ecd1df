import type { ResourceGroupColumns, ResourceGroupRow } from '../resourceGroup.ts';
import { type SelectorRow, type SelectorText, selectorTextColumns } from '../selector.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';
import type { GroupRows, GroupsFile } from './storedGroups.ts';

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

/** What a resource declares for one environment of one database. */
export interface GroupTarget {
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Root groups of the resource, with all below them. */
  readonly ownedRoots: ReadonlySet<string>;
  /** Root groups of other resources, which stay. */
  readonly othersRoots: ReadonlySet<string>;
  /** True if the period of CPU limits goes when the resource declares none. */
  readonly isPeriodOwned: boolean;
  /** True if groups without an owner are deleted. */
  readonly prune: boolean;
}

/** Differences between the tables and what a resource declares: as changes, and in words. */
export interface GroupChanges {
  readonly inserts: readonly DeclaredGroup[];
  readonly updates: readonly { readonly id: number; readonly group: DeclaredGroup }[];
  readonly deletes: readonly number[];
  /** Paths with other selectors than declared, with the declared ones. */
  readonly selectors: ReadonlyMap<string, readonly DeclaredSelector[]>;
  /** The global property; null: it stays as it is. */
  readonly period: { readonly value: string | null } | null;
  /** Ids of the declared groups that have a row. */
  readonly ids: ReadonlyMap<string, number>;
  /** Groups without an owner, by path, that are in the way: nothing may be written. */
  readonly blocked: readonly string[];
  /** A sentence for each change. */
  readonly differences: readonly string[];
}

export const PERIOD = 'cpu_quota_period';
/** Deepest nesting of groups that is followed, as in files. */
const MAX_DEPTH = 32;

/** Compares the tables with what a resource declares. Declared groups are found by their paths. Pure. */
export function groupChanges(present: GroupRows, target: GroupTarget): GroupChanges {
  const own = present.groups.filter(({ environment }) => environment === target.environment);
  const paths = pathsOf(own);
  const rowOf = new Map<string, ResourceGroupRow>();
  for (const row of own) {
    const path = paths.get(row.resourceGroupId);
    if (path !== undefined && !rowOf.has(path)) rowOf.set(path, row);
  }
  const differences: string[] = [];
  const inserts: DeclaredGroup[] = [];
  const updates: { id: number; group: DeclaredGroup }[] = [];
  const ids = new Map<string, number>();
  for (const group of target.rows.groups) {
    const row = rowOf.get(group.path);
    if (row === undefined) {
      inserts.push(group);
      differences.push(`${group.path} is missing`);
      continue;
    }
    ids.set(group.path, row.resourceGroupId);
    const parent = group.parentPath === null ? null : ids.get(group.parentPath);
    const different = [...columnDifferences(group, row), ...(row.parent === parent ? [] : ['another parent'])];
    if (different.length === 0) continue;
    updates.push({ id: row.resourceGroupId, group });
    differences.push(`${group.path} has ${different.join(', ')}`);
  }
  const nameOf = (id: number): string => paths.get(id) ?? `group ${id}`;
  const { deletes, blocked } = undeclared(present.groups, own, paths, new Set(ids.values()), target);
  differences.push(...deletes.map((id) => `${nameOf(id)} is not declared`));
  const selectors = selectorChanges(present.selectors, target.rows, ids);
  for (const path of selectors.keys()) if (ids.has(path)) differences.push(`selectors of ${path} are others`);
  const period = periodChange(present, target, new Set([...deletes, ...ids.values()]));
  if (period !== null)
    differences.push(`cpu_quota_period is ${period.present ?? 'unset'}, not ${period.value ?? 'unset'}`);
  return { inserts, updates, deletes, selectors, period, ids, blocked: blocked.map(nameOf), differences };
}

/** True if there is nothing to write. */
export function isUnchanged({ differences, selectors }: GroupChanges): boolean {
  return differences.length === 0 && selectors.size === 0;
}

/** Paths of rows by id. A row has no path if its ancestors are not all of the environment, or if they form a cycle. */
export function pathsOf(rows: readonly ResourceGroupRow[]): ReadonlyMap<number, string> {
  const byId = new Map(rows.map((row) => [row.resourceGroupId, row]));
  const paths = new Map<number, string>();
  for (const row of rows) {
    const names: string[] = [];
    let above: ResourceGroupRow | undefined = row;
    for (let depth = 0; above !== undefined && depth < MAX_DEPTH; depth += 1) {
      names.unshift(above.name);
      if (above.parent === null) {
        paths.set(row.resourceGroupId, names.join('.'));
        break;
      }
      above = byId.get(above.parent);
    }
  }
  return paths;
}

function columnDifferences({ columns }: DeclaredGroup, row: ResourceGroupRow): readonly string[] {
  return (Object.keys(columns) as (keyof typeof columns)[]).flatMap((column) =>
    row[column] === columns[column] ? [] : [`${column} ${row[column] ?? 'unset'}, not ${columns[column] ?? 'unset'}`],
  );
}

/** Rows that go, as the resource owns their root and does not declare them; and rows without an owner that would go with them. */
function undeclared(
  all: readonly ResourceGroupRow[],
  own: readonly ResourceGroupRow[],
  paths: ReadonlyMap<number, string>,
  declared: ReadonlySet<number>,
  { rows, ownedRoots, othersRoots, prune }: GroupTarget,
): { readonly deletes: readonly number[]; readonly blocked: readonly number[] } {
  const declaredRoots = new Set(rows.groups.map(({ path }) => rootOf(path)));
  const deletes = new Set<number>();
  const blocked: number[] = [];
  for (const { resourceGroupId: id } of own) {
    const path = paths.get(id);
    const root = path === undefined ? null : rootOf(path);
    if (declared.has(id) || (root !== null && othersRoots.has(root))) continue;
    if (prune || (root !== null && ownedRoots.has(root))) deletes.add(id);
    else if (root !== null && declaredRoots.has(root)) blocked.push(id);
  }
  for (const { resourceGroupId: id, parent } of all) {
    if (parent !== null && deletes.has(parent) && !deletes.has(id) && !declared.has(id)) blocked.push(id);
  }
  return { deletes: [...deletes], blocked };
}

const texts = Object.keys(selectorTextColumns) as (keyof typeof selectorTextColumns)[];
const textOf = (selector: { readonly priority: number } & DeclaredSelector['texts']): string =>
  JSON.stringify([selector.priority, ...texts.map((field) => selector[field])]);

function selectorChanges(
  present: readonly SelectorRow[],
  rows: DeclaredRows,
  ids: ReadonlyMap<string, number>,
): ReadonlyMap<string, readonly DeclaredSelector[]> {
  const presentOf = Map.groupBy(present, ({ resourceGroupId }) => resourceGroupId);
  const wantedOf = Map.groupBy(rows.selectors, ({ path }) => path);
  const changes = new Map<string, readonly DeclaredSelector[]>();
  for (const { path } of rows.groups) {
    const wanted = wantedOf.get(path) ?? [];
    const wantedTexts = wanted.map(({ priority, texts: own }) => textOf({ priority, ...own })).sort();
    const presentTexts = (presentOf.get(ids.get(path) ?? 0) ?? []).map(textOf).sort();
    if (wantedTexts.join('\n') !== presentTexts.join('\n')) changes.set(path, wanted);
  }
  return changes;
}

/** Change of the global property, which is of all groups of the database. */
function periodChange(
  { properties, groups }: GroupRows,
  { rows, isPeriodOwned }: GroupTarget,
  gone: ReadonlySet<number>,
): { readonly present: string | null; readonly value: string | null } | null {
  const present = properties.find(({ name }) => name === PERIOD)?.value ?? null;
  const { cpuQuotaPeriod: wanted } = rows;
  if (wanted !== null) return present === wanted ? null : { present, value: wanted };
  if (present === null || !isPeriodOwned) return null;
  // Engines load nothing when a group has limits of a period that is missing. Declared groups have none without it.
  const isNeeded = groups.some(
    ({ hardCpuLimit, resourceGroupId }) => hardCpuLimit !== null && !gone.has(resourceGroupId),
  );
  return isNeeded ? null : { present, value: null };
}

/** Finds a group by its path; null: not found. */
export function findGroup(groups: readonly FileGroup[], path: string): FileGroup | null {
  const [name, ...below] = path.split('.');
  const group = groups.find((each) => each.name === name) ?? null;
  return group === null || below.length === 0 ? group : findGroup(subGroupsOf(group), below.join('.'));
}

/**
 * Groups with one of them changed; the others stay the same objects. Pure.
 * @param path of a group that is there
 * @param edit returns the changed group; null removes it, with all below it
 */
export function withGroup(
  groups: readonly FileGroup[],
  path: string,
  edit: (group: FileGroup) => FileGroup | null,
): readonly FileGroup[] {
  const [name, ...below] = path.split('.');
  return groups.flatMap((group) => {
    if (group.name !== name) return [group];
    if (below.length > 0) return [withSubGroups(group, withGroup(subGroupsOf(group), below.join('.'), edit))];
    return edit(group) ?? [];
  });
}

/** A group with these below it; without any it has no list of them. Pure. */
export function withSubGroups(group: FileGroup, subGroups: readonly FileGroup[]): FileGroup {
  const { subGroups: _before, ...rest } = group;
  return subGroups.length === 0 ? rest : { ...rest, subGroups: [...subGroups] };
}

/** Groups right below a group of a checked file. */
export function subGroupsOf({ subGroups }: FileGroup): readonly FileGroup[] {
  return (subGroups ?? []) as readonly FileGroup[];
}

/**
 * Changes a group's columns. Fields with an equivalent value stay as they are written. Pure.
 * @param columns of the row from now on
 * @param stored columns of the row until now
 */
export function withColumns(
  group: FileGroup,
  columns: ResourceGroupColumns,
  stored: Pick<ResourceGroupColumns, 'softMemoryLimit'>,
): FileGroup {
  const declared = columnsOf(group);
  const changed: Record<string, unknown> = { ...group };
  for (const field of Object.keys(declared) as (keyof typeof declared)[]) {
    const value = columns[field];
    if (value === declared[field]) continue;
    // The row has this value if the column needs one and the file has none.
    const isFilledIn = field === 'softMemoryLimit' && value === ALL_MEMORY && stored.softMemoryLimit === ALL_MEMORY;
    if (isFilledIn && declared.softMemoryLimit === null) continue;
    if (value === null) delete changed[field];
    else changed[field] = value;
    // The former name of the field.
    if (field === 'hardConcurrencyLimit') delete changed.maxRunning;
  }
  return changed as FileGroup;
}

/**
 * Selectors with one added, or in place of another. A new one comes after those of its priority or a higher one, one in place
 * of another where its priority is. Pure.
 * @param from index of the one that goes; -1: none
 * @param highest priority of the first selector now
 */
export function withSelector(
  selectors: readonly FileSelector[],
  from: number,
  selector: FileSelector,
  priority: number,
  highest: number,
): { readonly selectors: readonly FileSelector[]; readonly index: number } {
  const rest = from === -1 ? selectors : selectors.toSpliced(from, 1);
  const index = Math.max(0, Math.min(rest.length, highest - priority + (from === -1 ? 1 : 0)));
  return { selectors: rest.toSpliced(index, 0, selector), index };
}
