import type { ResourceGroupRow } from '../resourceGroup.ts';
import { type SelectorRow, selectorTextColumns } from '../selector.ts';
import { type DeclaredGroup, type DeclaredRows, type DeclaredSelector, rootOf } from './declaredGroups.ts';
import type { GroupRows } from './storedGroups.ts';

/** Declared and former rows of a resource for one environment of one database. */
export interface GroupTarget {
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Previously stored paths of the resource: paths that are no longer declared are deleted. */
  readonly formerPaths: readonly string[];
  /** Previously stored values of the global property. */
  readonly formerPeriods: readonly string[];
  /** Root groups of other resources, which stay unchanged. */
  readonly othersRoots: ReadonlySet<string>;
  /** True if another resource declares the global property. */
  readonly isPeriodOfAnother: boolean;
  /** True deletes groups that no resource declares. */
  readonly prune: boolean;
}

/** Changes between the tables and a declaration, with a description. */
export interface GroupChanges {
  readonly inserts: readonly DeclaredGroup[];
  readonly updates: readonly { readonly id: number; readonly group: DeclaredGroup }[];
  /** Descendants first. */
  readonly deletes: readonly number[];
  /** Paths whose selectors are replaced, with the new selectors. */
  readonly selectors: ReadonlyMap<string, readonly DeclaredSelector[]>;
  /** The global property; null: unchanged. */
  readonly period: { readonly value: string | null } | null;
  /** Ids of the declared groups with a row. */
  readonly ids: ReadonlyMap<string, number>;
  /** Undeclared paths that stay, as they have descendants that no resource declares. */
  readonly blocked: readonly string[];
  /** Descriptions of differences, a sentence each. */
  readonly differences: readonly string[];
}

/** Maximum depth of groups, as in files. */
const MAX_DEPTH = 32;

/** Compares the tables with a resource's declaration. Ignores rows of other environments and other resources. Pure. */
export function groupChanges(present: GroupRows, target: GroupTarget): GroupChanges {
  const { environment, rows, prune, othersRoots } = target;
  const own = present.groups.filter((group) => group.environment === environment);
  const paths = pathsOf(own);
  const byPath = Map.groupBy(
    own.filter(({ resourceGroupId }) => paths.has(resourceGroupId)),
    ({ resourceGroupId }) => paths.get(resourceGroupId) ?? '',
  );
  const differences: string[] = [];
  const inserts: DeclaredGroup[] = [];
  const updates: { id: number; group: DeclaredGroup }[] = [];
  const ids = new Map<string, number>();
  const rowOf = new Map<string, ResourceGroupRow>();
  for (const group of rows.groups) {
    const [row] = byPath.get(group.path) ?? [];
    if (row === undefined) {
      inserts.push(group);
      differences.push(`${group.path} is missing`);
      continue;
    }
    ids.set(group.path, row.resourceGroupId);
    rowOf.set(group.path, row);
    const parent = group.parentPath === null ? null : (ids.get(group.parentPath) ?? null);
    const different = columnDifferences(group, row);
    if (different.length === 0 && row.parent === parent) continue;
    updates.push({ id: row.resourceGroupId, group });
    differences.push(`${group.path} has ${different.length === 0 ? 'another parent' : different.join(', ')}`);
  }
  const matched = new Set(ids.values());
  const former = new Set(target.formerPaths);
  const unwanted = own.filter(({ resourceGroupId }) => {
    const path = paths.get(resourceGroupId);
    if (path === undefined) return prune && !matched.has(resourceGroupId);
    if (matched.has(resourceGroupId) || othersRoots.has(rootOf(path))) return false;
    // A second row of a declared path has no owner.
    return prune || former.has(path) || ids.has(path);
  });
  const { deletes, blocked } = deletable(unwanted, present.groups, updates, ids);
  const nameOf = (id: number): string => paths.get(id) ?? `group ${id}`;
  differences.push(...deletes.map((id) => `${nameOf(id)} is not declared`));
  const selectors = selectorChanges(present.selectors, rows, rowOf);
  for (const path of selectors.keys()) if (ids.has(path)) differences.push(`selectors of ${path} are others`);
  const period = periodChange(present, target, new Set([...deletes, ...matched]));
  if (period !== null)
    differences.push(`cpu_quota_period is ${period.present ?? 'unset'}, not ${period.value ?? 'unset'}`);
  return {
    ...{ inserts, updates, deletes, selectors, ids, differences },
    blocked: blocked.map(nameOf),
    period: period === null ? null : { value: period.value },
  };
}

/** True if there are no changes. */
export function isUnchanged({ inserts, updates, deletes, selectors, period }: GroupChanges): boolean {
  return inserts.length + updates.length + deletes.length + selectors.size === 0 && period === null;
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

/** Rows that can be deleted: rows without remaining descendants. */
function deletable(
  unwanted: readonly ResourceGroupRow[],
  all: readonly ResourceGroupRow[],
  updates: GroupChanges['updates'],
  ids: ReadonlyMap<string, number>,
): { readonly deletes: readonly number[]; readonly blocked: readonly number[] } {
  const parents = new Map(all.map(({ resourceGroupId, parent }) => [resourceGroupId, parent]));
  for (const { id, group } of updates) {
    // A parent without an id is a new row.
    parents.set(id, group.parentPath === null ? null : (ids.get(group.parentPath) ?? null));
  }
  const children = Map.groupBy(parents.keys(), (id) => parents.get(id) ?? null);
  const goes = new Set(unwanted.map(({ resourceGroupId }) => resourceGroupId));
  const blocked: number[] = [];
  const staying = [...parents.keys()].filter((id) => !goes.has(id));
  // The ancestors of remaining rows remain too.
  for (const id of staying) {
    for (let above = parents.get(id) ?? null; above !== null && goes.has(above); above = parents.get(above) ?? null) {
      goes.delete(above);
      blocked.push(above);
    }
  }
  const deletes: number[] = [];
  const visited = new Set<number>();
  const stack = [...goes];
  while (stack.length > 0) {
    const id = stack.at(-1) ?? 0;
    const below = visited.has(id)
      ? []
      : (children.get(id) ?? []).filter((child) => goes.has(child) && !visited.has(child));
    visited.add(id);
    if (below.length > 0) {
      stack.push(...below);
      continue;
    }
    stack.pop();
    if (goes.delete(id)) deletes.push(id);
  }
  return { deletes, blocked };
}

const texts = Object.keys(selectorTextColumns) as (keyof typeof selectorTextColumns)[];
const textOf = (selector: { readonly priority: number } & DeclaredSelector['texts']): string =>
  JSON.stringify([selector.priority, ...texts.map((field) => selector[field])]);

function selectorChanges(
  present: readonly SelectorRow[],
  rows: DeclaredRows,
  rowOf: ReadonlyMap<string, ResourceGroupRow>,
): ReadonlyMap<string, readonly DeclaredSelector[]> {
  const presentOf = Map.groupBy(present, ({ resourceGroupId }) => resourceGroupId);
  const wantedOf = Map.groupBy(rows.selectors, ({ path }) => path);
  const changes = new Map<string, readonly DeclaredSelector[]>();
  for (const { path } of rows.groups) {
    const row = rowOf.get(path);
    const wanted = wantedOf.get(path) ?? [];
    const there = row === undefined ? [] : (presentOf.get(row.resourceGroupId) ?? []);
    const wantedTexts = wanted.map(({ priority, texts: own }) => textOf({ priority, ...own })).sort();
    const presentTexts = there.map(textOf).sort();
    if (wantedTexts.join('\n') !== presentTexts.join('\n')) changes.set(path, wanted);
  }
  return changes;
}

/** Change of the global property, which applies to all groups of the database. */
function periodChange(
  { properties, groups }: GroupRows,
  { rows, formerPeriods, isPeriodOfAnother }: GroupTarget,
  gone: ReadonlySet<number>,
): { readonly present: string | null; readonly value: string | null } | null {
  const present = properties.find(({ name }) => name === PERIOD)?.value ?? null;
  const { cpuQuotaPeriod: wanted } = rows;
  if (wanted !== null) return present === wanted ? null : { present, value: wanted };
  if (present === null || !formerPeriods.includes(present) || isPeriodOfAnother) return null;
  // Engines load nothing if a group has CPU limits without a period. Declared groups always have one.
  const isNeeded = groups.some(
    ({ hardCpuLimit, resourceGroupId }) => hardCpuLimit !== null && !gone.has(resourceGroupId),
  );
  return isNeeded ? null : { present, value: null };
}

/** Name of the global property with the period of CPU limits. */
export const PERIOD = 'cpu_quota_period';
