import { GatewayError } from '../../model/errors.ts';
import type { GlobalPropertyRow } from '../../model/globalProperty.ts';
import { type DeclaredSelector, declaredRows, rootOf } from '../../model/groupsFile/declaredGroups.ts';
import { checkFileSelector, type FileGroup, fileGroup, limitsOf } from '../../model/groupsFile/groupFields.ts';
import { fileSelector, PERIOD, pathsOf } from '../../model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import type { SelectorRow } from '../../model/selector.ts';
import { type GroupWrite, hasSameConditions } from '../../store/resourceGroupChanges.ts';
import { type GroupOwner, PERIOD_ROOT } from '../../store/resourceGroupStore.ts';
import { type ResourceGroupConfigurationSpec as GroupsSpec, RESOURCE_GROUP_CONFIGURATION } from './spec.ts';

/** A change of a row that a resource declares, as a change of its spec. */
export interface GroupEdit {
  readonly owner: GroupOwner;
  /** The object for messages. */
  readonly title: string;
  /** Field of the call that names the row. */
  readonly field: string;
  /**
   * Returns the changed spec, and the row as it is declared then; null: the spec does not have it.
   * @param firstPriority priority of the first of several selectors
   */
  readonly apply: (
    spec: GroupsSpec,
    firstPriority: (selectors: number) => number,
  ) => readonly [spec: GroupsSpec, row: GroupWrite['row']] | null;
}

/** A resource for messages. */
export function nameOfOwner({ namespace, name }: Pick<GroupOwner, 'namespace' | 'name'>): string {
  return `${RESOURCE_GROUP_CONFIGURATION} ${namespace}/${name}`;
}

/** Rejection of a change of a row that a resource declares. @param fix what to do instead */
export function declaredBy({ owner, title, field }: Omit<GroupEdit, 'apply'>, fix: string): GatewayError {
  return new GatewayError('EG_CONFLICT', `${title} belongs to the ${nameOfOwner(owner)}; ${fix}.`, { field });
}

type OwnedGroup = Omit<GroupEdit, 'apply'> & { readonly path: string };

/**
 * The edit of a resource that has the same effect as a change of the tables; null: no resource declares the rows.
 * @param groups rows before the change
 * @param owners of the database
 * @throws GatewayError EG_CONFLICT if the change is possible in the resource only, EG_IMPOSSIBLE
 */
export function groupEdit(
  { kind, before, row }: GroupWrite,
  groups: readonly ResourceGroupRow[],
  owners: readonly GroupOwner[],
): GroupEdit | null {
  const ownedGroup = (id: number | null | undefined): OwnedGroup | null => {
    const environment = groups.find(({ resourceGroupId }) => resourceGroupId === id)?.environment;
    const path = pathsOf(groups.filter((each) => each.environment === environment)).get(id ?? 0) ?? '';
    const owner = owners.find((each) => each.environment === environment && each.root === rootOf(path));
    const title = `The group ${path} of the environment ${environment}`;
    return path === '' || owner === undefined ? null : { owner, path, title, field: 'resourceGroupId' };
  };
  if (kind === 'GlobalProperty') return (row ?? before)?.name === PERIOD ? periodEdit(row, owners) : null;
  const own = ownedGroup(before?.resourceGroupId);
  if (kind === 'Selector') return selectorEdit(before, row, own, ownedGroup(row?.resourceGroupId));
  if (own !== null && before !== null) {
    const placing = ['name', 'parent', 'environment'] as const;
    const field = placing.find((each) => row !== null && row[each] !== before[each]);
    if (field === undefined) return editOf(own, row, (group) => (row === null ? [] : [withLimits(group, before, row)]));
    throw declaredBy({ ...own, field }, `change its ${field} there, or delete the group and create another one`);
  }
  const parent = ownedGroup(row?.parent);
  if (row === null || parent === null || before?.parent === row.parent) return null;
  const above = { ...parent, field: 'parent' };
  if (before !== null) {
    throw declaredBy(above, 'a group that is there cannot be moved below it by REST: delete it, and create it there');
  }
  const { environment } = above.owner;
  if (row.environment !== environment) {
    const message = `The environment must be ${environment}, as that of the parent.`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'environment' });
  }
  return editOf(above, row, (group) => [{ ...group, subGroups: [...(group.subGroups ?? []), fileGroup(row, [])] }]);
}

/** An edit that puts others in place of a group. */
function editOf(own: OwnedGroup, row: ResourceGroupRow | null, edit: (group: FileGroup) => FileGroup[]): GroupEdit {
  const below = (groups: readonly FileGroup[], prefix: string): FileGroup[] =>
    groups.flatMap((group) => {
      const path = prefix + group.name;
      if (path === own.path) return edit(group);
      if (!own.path.startsWith(`${path}.`)) return group;
      return { ...group, subGroups: below(group.subGroups ?? [], `${path}.`) };
    });
  const apply: GroupEdit['apply'] = (spec) =>
    hasGroup(spec, own) ? [{ ...spec, rootGroups: below(spec.rootGroups, '') }, row] : null;
  return { ...own, apply };
}

const hasGroup = (spec: GroupsSpec, { path }: OwnedGroup): boolean =>
  declaredRows(spec, 0).groups.some((group) => group.path === path);

/** A group with the columns that a call changes. The other fields stay as they are written. */
function withLimits(group: FileGroup, before: ResourceGroupRow, row: ResourceGroupRow): FileGroup {
  const limits = Object.entries(limitsOf(row)).filter(([field, value]) => value !== before[field as keyof typeof row]);
  const fields = { ...group, ...Object.fromEntries(limits) };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)) as FileGroup;
}

function selectorEdit(
  before: SelectorRow | null,
  row: SelectorRow | null,
  own: OwnedGroup | null,
  next: OwnedGroup | null,
): GroupEdit | null {
  const target = next ?? own;
  if (target === null) return null;
  const [from, to] = [own, next].map((group) => group && nameOfOwner(group.owner));
  if (before !== null && row !== null && from !== to) {
    const fix = 'a selector is moved only among the groups of one resource: delete it, and create it there';
    throw declaredBy({ ...(own ?? target), field: 'update.resourceGroupId' }, fix);
  }
  const stays = (each: DeclaredSelector) =>
    before === null || each.path !== own?.path || !hasSameConditions(before, each);
  const apply: GroupEdit['apply'] = (spec, firstPriority) => {
    const first = firstPriority(spec.selectors.length);
    const declared = declaredRows(spec, first).selectors;
    const others = spec.selectors.filter((_, index) => stays(declared[index] as DeclaredSelector));
    if (row === null) return [{ ...spec, selectors: others }, row];
    if (!hasGroup(spec, target)) return null;
    // A new one comes after those of its priority, one in place of another where its priority is.
    const place = first - row.priority + (others.length < declared.length ? 0 : 1);
    const wanted = fileSelector(row, target.path, []);
    const checked = checkFileSelector(wanted);
    const index = Math.max(0, Math.min(others.length, place));
    const edited = { ...spec, selectors: others.toSpliced(index, 0, checked.ok ? checked.value : wanted) };
    const { selectors } = declaredRows(edited, firstPriority(edited.selectors.length));
    const { path: _path, ...conditions } = selectors[index] as DeclaredSelector;
    return [edited, { ...row, ...conditions }];
  };
  return { ...target, apply };
}

function periodEdit(row: GlobalPropertyRow | null, owners: readonly GroupOwner[]): GroupEdit | null {
  const title = `The property ${PERIOD}`;
  const [owner, ...others] = owners.filter(({ root }) => root === PERIOD_ROOT);
  if (owner === undefined) return null;
  if (others.length > 0) {
    const names = [owner, ...others].map(nameOfOwner).join(', ');
    const message = `${title} is declared by several resources: ${names}; change it there.`;
    throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
  }
  const apply: GroupEdit['apply'] = ({ cpuQuotaPeriod, ...spec }) => {
    if (cpuQuotaPeriod === undefined) return null;
    return [row?.value == null ? spec : { ...spec, cpuQuotaPeriod: row.value }, row];
  };
  return { owner, title, field: 'name', apply };
}
