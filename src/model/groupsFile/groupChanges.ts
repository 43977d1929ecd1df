import type { ResourceGroupRow } from '../resourceGroup.ts';
import { type SelectorRow, selectorTextColumns } from '../selector.ts';
import { type DeclaredGroup, type DeclaredRows, type DeclaredSelector, rootOf } from './declaredGroups.ts';
import type { GroupRows } from './storedGroups.ts';

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
