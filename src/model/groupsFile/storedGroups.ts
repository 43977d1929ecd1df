import type { Problem } from '../errors.ts';
import type { GlobalPropertyRow } from '../globalProperty.ts';
import { isRecord } from '../record.ts';
import type { ResourceGroupRow } from '../resourceGroup.ts';
import { jsonOf, type SelectorRow } from '../selector.ts';
import {
  type FileGroup,
  type FileSelector,
  fileFieldOf,
  fileGroup,
  mapSelectorFields,
  type SelectorText,
  type SelectorTexts,
} from './groupFields.ts';

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

/** The tables as a change finds them. */
export interface StoredTables extends GroupRows {
  /** True if each group must have a memory limit, as the engine's migrations have not made the column nullable. */
  readonly needsMemoryLimit: boolean;
  /** The engine's migrations add some. */
  readonly selectorColumns: ReadonlySet<string>;
}

export interface StoredGroups {
  readonly file: GroupsFile;
  /** Rows of the file's selectors, in the same order. */
  readonly selectorRows: readonly SelectorRow[];
  readonly groupRows: ReadonlyMap<string, ResourceGroupRow>;
  /** Rows that cannot be represented in a file; engines load nothing with them. */
  readonly problems: readonly Problem[];
}

/** Name of the global property. */
export const PERIOD = 'cpu_quota_period';
/** Deepest nesting of groups that is followed, as in files. */
const MAX_DEPTH = 32;
const MAX_PROBLEMS = 100;

/** Environments of groups, sorted; engines only read groups of their own. */
export function environmentsOf(groups: readonly ResourceGroupRow[]): readonly string[] {
  return [...new Set(groups.flatMap(({ environment }) => environment ?? []))].sort();
}

/** The value of the period of CPU limits; null: not set. */
export function periodOf({ properties }: Pick<GroupRows, 'properties'>): string | null {
  return properties.find(({ name }) => name === PERIOD)?.value ?? null;
}

/** Paths of the rows of one environment by id. A row has no path if its ancestors are not all there, or if they form a cycle. */
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

/**
 * The tables' content for an environment, in the form of the file-based manager (Trino:
 * `DbResourceGroupConfigurationManager`).
 */
export function storedGroups(rows: GroupRows, environment: string): StoredGroups {
  const own = rows.groups.filter((group) => group.environment === environment);
  const paths = pathsOf(own);
  const problems: Problem[] = [];
  const placed = own.filter(({ resourceGroupId: id, name }) => {
    if (paths.has(id)) return true;
    const message = `(${JSON.stringify(name)}) has a parent that is not a group of the environment ${environment}, or is nested deeper than ${MAX_DEPTH} groups; it is left out`;
    problems.push({ field: `resource group ${id}`, message });
    return false;
  });
  const children = Map.groupBy(placed, ({ parent }) => parent);
  const below = (parent: number | null): FileGroup[] =>
    (children.get(parent) ?? []).map((row) => fileGroup(row, below(row.resourceGroupId)));
  // Of several rows of a path the first one counts.
  const groupRows = new Map(placed.map((row) => [paths.get(row.resourceGroupId) ?? '', row] as const).reverse());
  const selectorRows = rows.selectors.filter(({ resourceGroupId }) => paths.has(resourceGroupId));
  const period = periodOf(rows);
  const file = {
    ...(period === null ? {} : { cpuQuotaPeriod: period }),
    rootGroups: below(null),
    selectors: selectorRows.map((row) => fileSelector(row, paths.get(row.resourceGroupId) ?? '', problems)),
  };
  return { file, selectorRows, groupRows, problems: problems.slice(0, MAX_PROBLEMS) };
}

/** Conditions that the table has as JSON, by field: true for values of the form that engines read. */
const jsonForms: Partial<Record<SelectorText, (value: unknown) => boolean>> = {
  clientTags: Array.isArray,
  selectorResourceEstimate: isRecord,
};

/** Converts a selector to the file's form. @param problems receives one for each field that a file cannot represent */
export function fileSelector(row: SelectorRow, group: string, problems: Problem[]): FileSelector {
  const conditions: [string, unknown][] = [];
  for (const [name, text] of Object.entries(mapSelectorFields((each) => row[each])) as [
    SelectorText,
    string | null,
  ][]) {
    if (text === null) continue;
    const isRight = jsonForms[name];
    const value = isRight === undefined ? text : jsonOf(text);
    if (isRight === undefined || isRight(value)) conditions.push([fileFieldOf(name), value]);
    else {
      const of = row.id === null ? `selector of ${group} with priority ${row.priority}` : `selector ${row.id}`;
      problems.push({ field: of, message: `has a ${name} that is not of the form that engines read` });
    }
  }
  return { ...Object.fromEntries(conditions), group };
}

/** The conditions of a selector of a file as the table has them. */
export function selectorTexts(selector: FileSelector): SelectorTexts {
  return mapSelectorFields((name) => {
    const value = selector[fileFieldOf(name)] ?? null;
    return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
  });
}
