import { type ErrorCode, GatewayError } from '../model/errors.ts';
import type { GlobalProperty, GlobalPropertyRow } from '../model/globalProperty.ts';
import { contradictions, requireSelectorColumns, selectorTextNames } from '../model/groupsFile/groupFields.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import { environmentsOf, type GroupRows, type StoredTables, storedGroups } from '../model/groupsFile/storedGroups.ts';
import type { ResourceGroupColumns, ResourceGroupRow } from '../model/resourceGroup.ts';
import type { NewSelector, SelectorColumns, SelectorRow } from '../model/selector.ts';

/** A change of one row, or of equal rows. */
interface WriteOf<Kind, Row> {
  readonly kind: Kind;
  /** The row as it was; null: it was not there. */
  readonly before: Row | null;
  /** The row as it is now; null: it is deleted. */
  readonly row: Row | null;
  /** What the engine would reject in the meantime, in sentences for users. */
  readonly warnings: readonly string[];
}
export type GroupWrite =
  | WriteOf<'ResourceGroup', ResourceGroupRow>
  | WriteOf<'Selector', SelectorRow>
  | WriteOf<'GlobalProperty', GlobalPropertyRow>;

/** Decides a change by the tables: the change, and all rows as they are to be. Rows that stay are the same objects. Pure; throws a GatewayError. */
export type RowDecision = (present: StoredTables) => GroupWrite & { readonly rows: GroupRows };

const changeOf = <K, B, R>(kind: K, rows: GroupRows, before: B, row: R, warnings: readonly string[] = []) => ({
  ...{ kind, rows, before, row, warnings },
});

function rejectIf(isWrong: boolean, code: ErrorCode, field: string, message: string): void {
  if (isWrong) throw new GatewayError(code, message, { field });
}

const ofGroup = (id: number) => (row: { readonly resourceGroupId: number }) => row.resourceGroupId === id;

/** Columns that no two groups may have alike. */
export const groupPlace = ({ environment, parent, name }: ResourceGroupRow): string =>
  JSON.stringify([environment, parent, name]);

/** New rows have negative ids until they are stored. */
const NEW = -1;

/** Changes of resource groups. */
export const groupChanges = {
  /** Rejects with EG_CONFLICT (name taken under that parent), EG_IMPOSSIBLE (no such parent), EG_MALFORMED (softMemoryLimit). */
  create: (present: StoredTables, columns: ResourceGroupColumns) =>
    placed(present, null, { ...columns, resourceGroupId: NEW }),
  /** Overwrites all columns; rejects as `create`, with EG_NOT_FOUND, and with EG_IMPOSSIBLE for a cycle of parents. */
  update(present: StoredTables, row: ResourceGroupRow) {
    const before = present.groups.find(ofGroup(row.resourceGroupId)) ?? null;
    rejectIf(before === null, 'EG_NOT_FOUND', 'resourceGroupId', `There is no resource group ${row.resourceGroupId}.`);
    return placed(present, before, row);
  },
  /** An unknown id is no error. Rejects with EG_CONFLICT while selectors or other groups refer to it. */
  delete(present: StoredTables, { resourceGroupId: id }: Pick<ResourceGroupRow, 'resourceGroupId'>) {
    const before = present.groups.find(ofGroup(id)) ?? null;
    const children = present.groups.filter(({ parent }) => parent === id).map(({ name }) => JSON.stringify(name));
    const count = present.selectors.filter(ofGroup(id)).length;
    const users = [
      ...(children.length === 0 ? [] : [`the groups ${children.join(', ')}, whose parent it is`]),
      ...(count === 0 ? [] : [`${count} selector${count === 1 ? '' : 's'}`]),
    ];
    // Foreign keys of the engine's tables would delete all of these too.
    const message = `Group ${id} is in use by ${users.join(' and ')}; delete these first.`;
    if (users.length > 0) throw new GatewayError('EG_CONFLICT', message);
    const groups = present.groups.filter((group) => group !== before);
    return changeOf('ResourceGroup' as const, { ...present, groups }, before, null);
  },
};

function placed(present: StoredTables, before: ResourceGroupRow | null, row: ResourceGroupRow) {
  const others = present.groups.filter((group) => group !== before);
  requirePossible(row, others, present.needsMemoryLimit);
  const groups = before === null ? [...others, row] : present.groups.map((group) => (group === before ? row : group));
  const rows = { ...present, groups };
  return changeOf('ResourceGroup' as const, rows, before, row, warningsOf(present, rows, row));
}

function requirePossible(
  group: ResourceGroupRow,
  others: readonly ResourceGroupRow[],
  needsMemoryLimit: boolean,
): void {
  const { resourceGroupId: id, parent, softMemoryLimit } = group;
  const parents = new Map(others.map((other) => [other.resourceGroupId, other.parent]));
  const ancestors = new Set<number>();
  for (let above = parent; above !== null && !ancestors.has(above); above = parents.get(above) ?? null) {
    ancestors.add(above);
  }
  const same = others.find((each) => groupPlace(each) === groupPlace(group));
  const taken = `Group ${same?.resourceGroupId} has that name already, under the same parent and environment.`;
  const limit = 'softMemoryLimit is required: a percentage such as 80% or a size such as 5GB.';
  const [{ field, message } = { field: '', message: '' }] = contradictions(group);
  rejectIf(field !== '', 'EG_IMPOSSIBLE', field, `${field} ${message}.`);
  rejectIf(ancestors.has(id), 'EG_IMPOSSIBLE', 'parent', `Group ${id} would be among its own parents.`);
  const isOrphan = parent !== null && !parents.has(parent);
  rejectIf(isOrphan, 'EG_IMPOSSIBLE', 'parent', `There is no group ${parent} that could be the parent.`);
  rejectIf(same !== undefined, 'EG_CONFLICT', 'name', taken);
  rejectIf(softMemoryLimit === null && needsMemoryLimit, 'EG_MALFORMED', 'softMemoryLimit', limit);
}

/** Warnings of what the engine would reject in new rows. A later call can fix it, so the change is not rejected. */
function warningsOf(present: GroupRows, rows: GroupRows, { environment }: ResourceGroupRow): readonly string[] {
  const before = new Set(rejectionsOf(present));
  const rejections = rejectionsOf(rows).filter((text) => !before.has(text));
  const none = 'The group has no environment: an engine reads only groups of its own environment.';
  return [...(environment === null ? [none] : []), ...rejections.map((text) => `The engine loads no groups: ${text}.`)];
}

/** Mistakes in groups that keep engines from loading the tables. */
function rejectionsOf(rows: GroupRows): readonly string[] {
  return environmentsOf(rows.groups).flatMap((environment) => {
    const { file, problems } = storedGroups({ ...rows, selectors: [] }, environment);
    const inFile = checkGroupsFile(file, false).problems.map(({ field, message }) => {
      let siblings = file.rootGroups;
      const names = [...field.matchAll(/\w+\[(\d+)\]/g)].map(([, index]) => {
        const group = siblings[Number(index)];
        siblings = group?.subGroups ?? [];
        return group?.name;
      });
      return `${field.split('.').at(-1)} of ${names.join('.')} ${message}`;
    });
    return [...problems.map(({ field, message }) => `${field} ${message}`), ...inFile];
  });
}

/** Changes of selectors. Reject with EG_IMPOSSIBLE for an unknown group or a column that the table does not have. */
export const selectorChanges = {
  /** Rejects with EG_CONFLICT where there is no group at all. */
  create: (present: StoredTables, selector: NewSelector) => newSelector(present, selector, ''),
  /**
   * Every row equal to `current` becomes `update`; without one, `update` is created.
   * @param prefix of fields of `update` in messages
   */
  update(
    present: StoredTables,
    { current, update }: { readonly current: SelectorRow; readonly update: SelectorColumns },
    prefix = 'update.',
  ) {
    const equal = new Set(present.selectors.filter((each) => isEqual(each, current)));
    const [before] = equal;
    if (before === undefined) return newSelector(present, update, prefix);
    requireStorable(update, present, prefix);
    const selectors = present.selectors.map((each) => (equal.has(each) ? { ...update, id: each.id } : each));
    const isOne = equal.size === 1;
    const warnings = isOne ? [] : [`${equal.size} selectors were equal to current; all of them were changed.`];
    const row = { ...update, id: isOne ? before.id : null };
    return changeOf('Selector' as const, { ...present, selectors }, before, row, warnings);
  },
  /** Overwrites the first selector of its group, or creates it (docs/compatibility.md#entities). */
  replaceFirst(present: StoredTables, update: SelectorColumns) {
    const first = present.selectors.find(ofGroup(update.resourceGroupId));
    return selectorChanges.update(present, { current: first ?? { ...update, id: null }, update }, '');
  },
  /** Deletes every equal row; none is no error. */
  delete(present: StoredTables, selector: SelectorRow) {
    const selectors = present.selectors.filter((each) => !isEqual(each, selector));
    const before = selectors.length === present.selectors.length ? null : selector;
    return changeOf('Selector' as const, { ...present, selectors }, before, null);
  },
};

function newSelector(present: StoredTables, selector: NewSelector, prefix: string) {
  const newest = selector.resourceGroupId === null ? present.groups.at(-1) : undefined;
  const resourceGroupId = selector.resourceGroupId ?? newest?.resourceGroupId ?? 0;
  const none = 'There is no resource group that the selector could point to; create one first.';
  rejectIf(resourceGroupId === 0, 'EG_CONFLICT', 'resourceGroupId', none);
  const row = { ...selector, resourceGroupId, id: null };
  requireStorable(row, present, prefix);
  const warning = `No resourceGroupId was sent; the selector points to the newest group, ${resourceGroupId} (${newest?.name}).`;
  const rows = { ...present, selectors: [...present.selectors, row] };
  return changeOf('Selector' as const, rows, null, row, newest === undefined ? [] : [warning]);
}

type SelectorConditions = Pick<SelectorRow, 'priority' | (typeof selectorTextNames)[number]>;

/** True if two selectors have the same priority and conditions. */
export function hasSameConditions(a: SelectorConditions, b: SelectorConditions): boolean {
  return a.priority === b.priority && selectorTextNames.every((name) => a[name] === b[name]);
}

function isEqual(row: SelectorRow, wanted: SelectorRow): boolean {
  const isOfGroup = row.resourceGroupId === wanted.resourceGroupId;
  return isOfGroup && (wanted.id === null || row.id === wanted.id) && hasSameConditions(row, wanted);
}

function requireStorable(selector: SelectorColumns, present: StoredTables, prefix: string): void {
  requireSelectorColumns(selector, present.selectorColumns, prefix);
  const { resourceGroupId: id } = selector;
  const isThere = present.groups.some(ofGroup(id));
  rejectIf(!isThere, 'EG_IMPOSSIBLE', `${prefix}resourceGroupId`, `There is no resource group ${id}.`);
}

/** Changes of global properties. */
export const propertyChanges = {
  /** Rejects with EG_CONFLICT where it exists. */
  create: (present: StoredTables, row: GlobalProperty) => propertyChange(present, row.name, row, false),
  /** Rejects with EG_NOT_FOUND. */
  update: (present: StoredTables, row: GlobalProperty) => propertyChange(present, row.name, row, true),
  /** An unknown name is no error. */
  delete: (present: StoredTables, { name }: Pick<GlobalProperty, 'name'>) => propertyChange(present, name, null, null),
};

/** @param isThere true if it must exist, false if it must not */
function propertyChange(present: StoredTables, name: string, row: GlobalProperty | null, isThere: boolean | null) {
  const before = present.properties.find((each) => each.name === name) ?? null;
  const isTaken = before !== null && isThere === false;
  rejectIf(isTaken, 'EG_CONFLICT', 'name', `The property ${name} exists; update it instead.`);
  const isMissing = before === null && isThere === true;
  rejectIf(isMissing, 'EG_NOT_FOUND', 'name', `There is no property ${name}; create it.`);
  const others = present.properties.filter((each) => each !== before);
  const properties = row === null ? others : [...others, row];
  return changeOf('GlobalProperty' as const, { ...present, properties }, before, row);
}

/** The row of a change as the tables have it. @throws GatewayError EG_CONFLICT if a group was deleted meanwhile */
export function storedRow<Row extends GroupWrite['row']>(rows: GroupRows, row: Row): Row {
  if (row === null || 'value' in row) return row;
  if ('priority' in row) {
    // Of equal rows a new one has the last id.
    const equal = rows.selectors.filter((each) => isEqual(each, { ...row, id: null }));
    const byId = equal.toSorted((a, b) => (a.id ?? 0) - (b.id ?? 0));
    return (byId.find(({ id }) => id === row.id) ?? byId.at(-1) ?? row) as Row;
  }
  const stored = rows.groups.find((each) => groupPlace(each) === groupPlace(row));
  if (stored !== undefined) return stored as Row;
  throw new GatewayError('EG_CONFLICT', `The group ${row.name} was deleted meanwhile; list the groups again.`);
}
