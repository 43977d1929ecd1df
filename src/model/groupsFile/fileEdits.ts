import type { ResourceGroupColumns } from '../resourceGroup.ts';
import { ALL_MEMORY, columnsOf } from './declaredGroups.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';

/** Finds a group by its path, or null. */
export function findGroup(groups: readonly FileGroup[], path: string): FileGroup | null {
  let level = groups;
  let group: FileGroup | null = null;
  for (const name of path.split('.')) {
    group = level.find((each) => each.name === name) ?? null;
    if (group === null) return null;
    level = subGroupsOf(group);
  }
  return group;
}

/**
 * Changes one of the groups; the others stay the same objects. Pure.
 * @param path of an existing group
 * @param edit returns the changed group; null removes it with its descendants
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

/** Replaces a group's sub-groups; an empty list is omitted. Pure. */
export function withSubGroups(group: FileGroup, subGroups: readonly FileGroup[]): FileGroup {
  const { subGroups: _before, ...rest } = group;
  return subGroups.length === 0 ? rest : { ...rest, subGroups: [...subGroups] };
}

/** Direct sub-groups of a group in a checked file. */
export function subGroupsOf({ subGroups }: FileGroup): readonly FileGroup[] {
  return (subGroups ?? []) as readonly FileGroup[];
}

/**
 * Changes a group's columns. Fields with an equivalent value stay as they are written. Pure.
 * @param columns all columns of the new row
 * @param stored the current row
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
    // Value of a required column that the file does not have.
    const isFilledIn = field === 'softMemoryLimit' && value === ALL_MEMORY && stored.softMemoryLimit === ALL_MEMORY;
    if (isFilledIn && declared.softMemoryLimit === null) continue;
    if (value === null) delete changed[field];
    else changed[field] = value;
    // The former name of the field.
    if (field === 'hardConcurrencyLimit') delete changed.maxRunning;
  }
  return changed as FileGroup;
}

/** A list of selectors, with the index of the changed one. */
export interface PlacedSelector {
  readonly selectors: readonly FileSelector[];
  readonly index: number;
}

/**
 * Adds a selector after others of the same or a higher priority. Pure.
 * @param highest current priority of the first selector
 */
export function withSelector(
  selectors: readonly FileSelector[],
  selector: FileSelector,
  priority: number,
  highest: number,
): PlacedSelector {
  const index = Math.max(0, Math.min(selectors.length, highest - priority + 1));
  return { selectors: selectors.toSpliced(index, 0, selector), index };
}

/**
 * Replaces a selector and moves it to its priority. Pure.
 * @param from index of the replaced selector
 * @param highest as in `withSelector`
 */
export function withOtherSelector(
  selectors: readonly FileSelector[],
  from: number,
  selector: FileSelector,
  priority: number,
  highest: number,
): PlacedSelector {
  const index = Math.max(0, Math.min(selectors.length - 1, highest - priority));
  return { selectors: selectors.toSpliced(from, 1).toSpliced(index, 0, selector), index };
}
