import type { ResourceGroupColumns } from '../resourceGroup.ts';
import { ALL_MEMORY, columnsOf } from './declaredGroups.ts';
import type { FileGroup, FileSelector } from './groupFields.ts';

/** Finds a group by its path; null: there is none. */
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
 * Groups with one of them changed; the others stay the same objects. Pure.
 * @param path of a group that is there
 * @param edit answers the group as it is to be; null takes it out, with all below it
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
 * A group whose row has other columns. Fields that mean the same stay as they are written. Pure.
 * @param columns all that the row is to have
 * @param stored what it has now
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
    // What the row has where the column needs a value, and the file has none.
    const isFilledIn = field === 'softMemoryLimit' && value === ALL_MEMORY && stored.softMemoryLimit === ALL_MEMORY;
    if (isFilledIn && declared.softMemoryLimit === null) continue;
    if (value === null) delete changed[field];
    else changed[field] = value;
    // The former name of the field.
    if (field === 'hardConcurrencyLimit') delete changed.maxRunning;
  }
  return changed as FileGroup;
}

/** A list of selectors, and where in it the one that was put is. */
export interface PlacedSelector {
  readonly selectors: readonly FileSelector[];
  readonly index: number;
}

/**
 * Selectors with a further one, after those of the same priority or a higher one. Pure.
 * @param highest priority of the first selector now
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
 * Selectors with another one in the place of one of them, moved to where a priority is. Pure.
 * @param from index of the one that goes
 * @param highest as `withSelector` takes it
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
