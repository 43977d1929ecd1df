import type { ResourceGroupColumns } from '../resourceGroup.ts';
import { ALL_MEMORY, columnsOf } from './declaredGroups.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';

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
