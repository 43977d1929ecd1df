import { GatewayError } from '../errors.ts';
import type { ResourceGroupRow } from '../resourceGroup.ts';
import type { SelectorRow } from '../selector.ts';
import {
  type FileGroup,
  type GroupLimits,
  limitsOf,
  mapSelectorFields,
  requireSelectorColumns,
  type SelectorTexts,
} from './groupFields.ts';
import {
  type GroupRows,
  type GroupsFile,
  PERIOD,
  pathsOf,
  periodOf,
  type StoredTables,
  selectorTexts,
} from './storedGroups.ts';

export interface DeclaredGroup {
  /** Such as `global.adhoc`. */
  readonly path: string;
  readonly columns: GroupLimits;
}

export type DeclaredSelector = SelectorTexts & { readonly path: string; readonly priority: number };

export interface DeclaredRows {
  readonly groups: readonly DeclaredGroup[];
  readonly selectors: readonly DeclaredSelector[];
  /** Value of the global property; null: not declared. */
  readonly cpuQuotaPeriod: string | null;
}

/**
 * The rows of a file that `checkGroupsFile` accepts. Engines try selectors by priority, so that each has a lower one
 * than its predecessors.
 * @param firstPriority priority of the first selector
 */
export function declaredRows(file: GroupsFile, firstPriority: number): DeclaredRows {
  const below = (groups: readonly FileGroup[], prefix: string): DeclaredGroup[] =>
    groups.flatMap((group) => {
      const path = prefix + group.name;
      return [{ path, columns: limitsOf(group) }, ...below(group.subGroups ?? [], `${path}.`)];
    });
  return {
    groups: below(file.rootGroups, ''),
    selectors: file.selectors.map((selector, index) => ({
      ...{ path: selector.group, priority: firstPriority - index, ...selectorTexts(selector) },
    })),
    cpuQuotaPeriod: file.cpuQuotaPeriod ?? null,
  };
}

/** Most groups that a message lists. */
const MAX_LISTED = 5;

/** Value for a group without a memory limit if the column requires one: it is never reached. */
const ALL_MEMORY = '100%';

export const noRows: DeclaredRows = { groups: [], selectors: [], cpuQuotaPeriod: null };

export function rootOf(path: string): string {
  return path.split('.', 1)[0] ?? path;
}

/** What a resource declares for one environment of one database. */
export interface GroupTarget {
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Root groups of resources, with all below them; those of others stay. */
  readonly owners: ReadonlyMap<string, 'own' | 'other'>;
  /** True if the period of CPU limits goes when the resource declares none. */
  readonly isPeriodOwned: boolean;
  /** True if groups without an owner are deleted. */
  readonly prune: boolean;
}

/**
 * Compares the tables with what a resource declares, by the paths of groups. Pure.
 * @returns the rows as they are to be, which are the same objects if they stay, and a sentence for each difference
 * @throws GatewayError EG_CONFLICT while groups without an owner are in the way of declared ones, EG_IMPOSSIBLE for a column that the
 *   table of selectors does not have
 */
export function declaredChanges(
  present: StoredTables,
  target: GroupTarget,
): { readonly rows: GroupRows; readonly differences: readonly string[] } {
  const { environment } = target;
  const own = present.groups.filter((row) => row.environment === environment);
  const paths = pathsOf(own);
  // Of several rows of a path the first one counts.
  const rowOf = new Map(own.map((row) => [paths.get(row.resourceGroupId), row] as const).reverse());
  const differences: string[] = [];
  const ids = new Map<string, number>();
  const groups = target.rows.groups.map(({ path, columns }, index): ResourceGroupRow => {
    const row = rowOf.get(path);
    const id = row?.resourceGroupId ?? -1 - index;
    ids.set(path, id);
    const parent = ids.get(path.slice(0, -columns.name.length - 1)) ?? null;
    const softMemoryLimit = columns.softMemoryLimit ?? (present.needsMemoryLimit ? ALL_MEMORY : null);
    const wanted = { ...columns, softMemoryLimit, resourceGroupId: id, parent, environment };
    if (row === undefined) {
      differences.push(`${path} is missing`);
      return wanted;
    }
    const different = (Object.keys(columns) as (keyof GroupLimits)[])
      .filter((column) => row[column] !== wanted[column])
      .map((column) => `${column} ${row[column] ?? 'unset'}, not ${wanted[column] ?? 'unset'}`);
    if (row.parent !== parent) different.push('another parent');
    if (different.length === 0) return row;
    differences.push(`${path} has ${different.join(', ')}`);
    return wanted;
  });
  const nameOf = (id: number): string => paths.get(id) ?? `group ${id}`;
  const declared = new Set(ids.values());
  const { deletes, blocked } = undeclared(present.groups, own, paths, declared, target);
  if (blocked.length > 0) throw blockedBy(blocked.map(nameOf));
  differences.push(...[...deletes].map((id) => `${nameOf(id)} is not declared`));
  const selectors = declaredSelectors(present, target.rows, ids);
  const stored = present.selectors.filter(({ resourceGroupId: id }) => declared.has(id));
  const others = Map.groupBy(new Set(selectors).symmetricDifference(new Set(stored)), (row) => row.resourceGroupId);
  for (const [path, id] of ids) if (id > 0 && others.has(id)) differences.push(`selectors of ${path} are others`);
  const replaced = deletes.union(declared);
  const [period, value] = [periodOf(present), periodAfter(present, target, replaced)];
  if (period !== value) differences.push(`cpu_quota_period is ${period ?? 'unset'}, not ${value ?? 'unset'}`);
  if (differences.length === 0) return { rows: present, differences };
  const properties = present.properties.filter(({ name }) => name !== PERIOD || period === value);
  if (period !== value && value !== null) properties.push({ name: PERIOD, value });
  const isOther = ({ resourceGroupId: id }: { readonly resourceGroupId: number }) => !replaced.has(id);
  const rows = {
    groups: [...present.groups.filter(isOther), ...groups],
    selectors: [...present.selectors.filter(isOther), ...selectors],
    properties,
  };
  return { rows, differences };
}

function blockedBy(names: readonly string[]): GatewayError {
  const more = names.length > MAX_LISTED ? `, and ${names.length - MAX_LISTED} more` : '';
  const listed = `${names.slice(0, MAX_LISTED).join(', ')}${more}`;
  const message = `no resource declares ${listed}, below groups of this one: declare or delete those, or set prune; nothing is written until then`;
  return new GatewayError('EG_CONFLICT', message);
}

/** Root of rows without a path: no group has this name. */
const NO_PATH = '\0';

/** Rows that go, as the resource owns their root and does not declare them; and rows without an owner that would go with them. */
function undeclared(
  all: readonly ResourceGroupRow[],
  own: readonly ResourceGroupRow[],
  paths: ReadonlyMap<number, string>,
  declared: ReadonlySet<number>,
  { rows, owners, prune }: GroupTarget,
): { readonly deletes: Set<number>; readonly blocked: readonly number[] } {
  const declaredRoots = new Set(rows.groups.map(({ path }) => rootOf(path)));
  const deletes = new Set<number>();
  const blocked: number[] = [];
  for (const { resourceGroupId: id } of own) {
    const root = rootOf(paths.get(id) ?? NO_PATH);
    if (declared.has(id) || owners.get(root) === 'other') continue;
    if (prune || owners.has(root)) deletes.add(id);
    else if (declaredRoots.has(root)) blocked.push(id);
  }
  for (const { resourceGroupId: id, parent } of all) {
    if (parent !== null && deletes.has(parent) && !deletes.has(id) && !declared.has(id)) blocked.push(id);
  }
  return { deletes, blocked };
}

/** The declared selectors: the rows that are there, and new ones. */
function declaredSelectors(
  { selectors, selectorColumns }: StoredTables,
  { selectors: declared }: DeclaredRows,
  ids: ReadonlyMap<string, number>,
): readonly SelectorRow[] {
  const textOf = ({ resourceGroupId, priority, ...row }: SelectorRow) =>
    JSON.stringify([resourceGroupId, priority, mapSelectorFields((name) => row[name])]);
  const stored = Map.groupBy(selectors, textOf);
  return declared.map(({ path, ...conditions }) => {
    const wanted = { ...conditions, resourceGroupId: ids.get(path) ?? 0, id: null };
    const row = stored.get(textOf(wanted))?.shift();
    if (row === undefined) requireSelectorColumns(wanted, selectorColumns, `selector of ${path}: `);
    return row ?? wanted;
  });
}

/** The global property, which is of all groups of the database, as it is to be. */
function periodAfter(
  present: GroupRows,
  { rows: { cpuQuotaPeriod }, isPeriodOwned }: GroupTarget,
  replaced: ReadonlySet<number>,
): string | null {
  // Engines load nothing when a group has limits of a period that is missing. Declared groups have none without it.
  const isNeeded = present.groups.some((row) => row.hardCpuLimit !== null && !replaced.has(row.resourceGroupId));
  return cpuQuotaPeriod ?? (isPeriodOwned && !isNeeded ? null : periodOf(present));
}
