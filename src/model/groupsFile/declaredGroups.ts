import { GatewayError } from '../errors.ts';
import type { ResourceGroupRow } from '../resourceGroup.ts';
import type { SelectorRow } from '../selector.ts';
import { type FileGroup, type GroupLimits, limitsOf, mapSelectorFields, type SelectorTexts } from './groupFields.ts';
import { type GroupRows, type GroupsFile, pathsOf, periodOf, selectorTexts } from './storedGroups.ts';

export interface DeclaredGroup {
  /** Such as `global.adhoc`. */
  readonly path: string;
  /** Null: a root. */
  readonly parentPath: string | null;
  readonly columns: GroupLimits;
}

export interface DeclaredSelector {
  readonly path: string;
  readonly priority: number;
  readonly texts: SelectorTexts;
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
  const below = (groups: readonly FileGroup[], parentPath: string | null): DeclaredGroup[] =>
    groups.flatMap((group) => {
      const path = parentPath === null ? group.name : `${parentPath}.${group.name}`;
      return [{ path, parentPath, columns: limitsOf(group) }, ...below(group.subGroups ?? [], path)];
    });
  const highest = firstPriority ?? file.selectors.length;
  return {
    groups: below(file.rootGroups, null),
    selectors: file.selectors.map((selector, index) => ({
      ...{ path: selector.group, priority: highest - index, texts: selectorTexts(selector) },
    })),
    cpuQuotaPeriod: file.cpuQuotaPeriod ?? null,
  };
}

/** Most groups that a message lists. */
const MAX_LISTED = 5;

/** Value for a group without a memory limit if the column requires one: it is never reached. */
export const ALL_MEMORY = '100%';

export const noRows: DeclaredRows = { groups: [], selectors: [], cpuQuotaPeriod: null };

export function rootOf(path: string): string {
  return path.split('.', 1)[0] ?? path;
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
  /** A sentence for each change. */
  readonly differences: readonly string[];
}

/**
 * Compares the tables with what a resource declares. Declared groups are found by their paths. Pure.
 * @throws GatewayError EG_CONFLICT while groups without an owner are in the way of declared ones
 */
export function groupChanges(present: GroupRows, target: GroupTarget): GroupChanges {
  const own = present.groups.filter(({ environment }) => environment === target.environment);
  const paths = pathsOf(own);
  // Of several rows of a path the first one counts.
  const rowOf = new Map(own.map((row) => [paths.get(row.resourceGroupId), row] as const).reverse());
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
  if (blocked.length > 0) throw blockedBy(blocked.map(nameOf));
  differences.push(...deletes.map((id) => `${nameOf(id)} is not declared`));
  const selectors = selectorChanges(present.selectors, target.rows, ids);
  for (const path of selectors.keys()) if (ids.has(path)) differences.push(`selectors of ${path} are others`);
  const period = periodChange(present, target, new Set([...deletes, ...ids.values()]));
  if (period !== null) {
    differences.push(`cpu_quota_period is ${periodOf(present) ?? 'unset'}, not ${period.value ?? 'unset'}`);
  }
  return { inserts, updates, deletes, selectors, period, ids, differences };
}

function blockedBy(names: readonly string[]): GatewayError {
  const more = names.length > MAX_LISTED ? `, and ${names.length - MAX_LISTED} more` : '';
  const listed = `${names.slice(0, MAX_LISTED).join(', ')}${more}`;
  const message = `no resource declares ${listed}, below groups of this one: declare or delete those, or set prune; nothing is written until then`;
  return new GatewayError('EG_CONFLICT', message);
}

function columnDifferences({ columns }: DeclaredGroup, row: ResourceGroupRow): readonly string[] {
  return (Object.keys(columns) as (keyof typeof columns)[]).flatMap((column) =>
    row[column] === columns[column] ? [] : [`${column} ${row[column] ?? 'unset'}, not ${columns[column] ?? 'unset'}`],
  );
}

/** Root of rows without a path: no group has this name. */
const NO_PATH = '\0';

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
    const root = rootOf(paths.get(id) ?? NO_PATH);
    if (declared.has(id) || othersRoots.has(root)) continue;
    if (prune || ownedRoots.has(root)) deletes.add(id);
    else if (declaredRoots.has(root)) blocked.push(id);
  }
  for (const { resourceGroupId: id, parent } of all) {
    if (parent !== null && deletes.has(parent) && !deletes.has(id) && !declared.has(id)) blocked.push(id);
  }
  return { deletes: [...deletes], blocked };
}

function selectorChanges(
  present: readonly SelectorRow[],
  rows: DeclaredRows,
  ids: ReadonlyMap<string, number>,
): ReadonlyMap<string, readonly DeclaredSelector[]> {
  const textOf = (priority: number, texts: SelectorTexts) =>
    JSON.stringify([priority, mapSelectorFields((name) => texts[name])]);
  const presentOf = Map.groupBy(present, ({ resourceGroupId }) => resourceGroupId);
  const wantedOf = Map.groupBy(rows.selectors, ({ path }) => path);
  const changes = new Map<string, readonly DeclaredSelector[]>();
  for (const { path } of rows.groups) {
    const wanted = wantedOf.get(path) ?? [];
    const stored = presentOf.get(ids.get(path) ?? 0) ?? [];
    const wantedTexts = wanted.map(({ priority, texts }) => textOf(priority, texts)).sort();
    const storedTexts = stored.map((row) => textOf(row.priority, row)).sort();
    if (wantedTexts.join('\n') !== storedTexts.join('\n')) changes.set(path, wanted);
  }
  return changes;
}

/** Change of the global property, which is of all groups of the database. */
function periodChange(
  present: GroupRows,
  { rows: { cpuQuotaPeriod: wanted }, isPeriodOwned }: GroupTarget,
  gone: ReadonlySet<number>,
): { readonly value: string | null } | null {
  const value = periodOf(present);
  if (value === wanted || (wanted === null && !isPeriodOwned)) return null;
  // Engines load nothing when a group has limits of a period that is missing. Declared groups have none without it.
  const isNeeded = present.groups.some((row) => row.hardCpuLimit !== null && !gone.has(row.resourceGroupId));
  return wanted === null && isNeeded ? null : { value: wanted };
}
