import {
  RESOURCE_GROUP_CONFIGURATION,
  type ResourceGroupConfigurationSpec,
} from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { type DeclaredSelector, declaredRows, highestPriority, rootOf } from '../../model/groupsFile/declaredGroups.ts';
import {
  findGroup,
  subGroupsOf,
  withColumns,
  withGroup,
  withSelector,
  withSubGroups,
} from '../../model/groupsFile/fileEdits.ts';
import { PERIOD, pathsOf } from '../../model/groupsFile/groupChanges.ts';
import { checkFileSelector, type FileGroup } from '../../model/groupsFile/groupFields.ts';
import { fileGroup, fileSelector } from '../../model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import { type SelectorRow, type SelectorText, selectorTextColumns } from '../../model/selector.ts';
import { type GroupOwner, PERIOD_ROOT } from '../../store/groupOwnerRepository.ts';
import type { GroupWrite } from '../../store/resourceGroupStore.ts';

type Spec = ResourceGroupConfigurationSpec;

/** A change of rows that a resource declares. */
export interface DeclaredChange {
  readonly owner: GroupOwner;
  /** For messages. */
  readonly title: string;
  /** Field of the call that names the row. */
  readonly field: string;
  /** Returns the changed spec, with the selector that was put; null: the spec does not have the row. */
  readonly edit: (spec: Spec) => { readonly spec: Spec; readonly selector?: DeclaredSelector | undefined } | null;
}

/** A group that a resource owns. */
interface OwnedGroup {
  readonly owner: GroupOwner;
  readonly path: string;
  readonly title: string;
}

/** A resource for messages. */
export function nameOfOwner({ namespace, name }: Pick<GroupOwner, 'namespace' | 'name'>): string {
  return `${RESOURCE_GROUP_CONFIGURATION} ${namespace}/${name}`;
}

/** Rejection of a change of a row that a resource declares. @param fix what to do instead */
export function declaredBy(
  owner: GroupOwner,
  { title, field }: Pick<DeclaredChange, 'title' | 'field'>,
  fix: string,
): GatewayError {
  return new GatewayError('EG_CONFLICT', `${title} belongs to the ${nameOfOwner(owner)}; ${fix}.`, { field });
}

/**
 * The change of a resource that has the same effect as a change of the tables; null: no resource declares the rows.
 * @param groups rows before the change
 * @param owners of the database
 * @throws GatewayError EG_CONFLICT if the change is possible in the resource only, EG_IMPOSSIBLE
 */
export function declaredChange(
  write: GroupWrite,
  groups: readonly ResourceGroupRow[],
  owners: readonly GroupOwner[],
): DeclaredChange | null {
  const ownedGroup = (id: number): OwnedGroup | null => {
    const environment = groups.find(({ resourceGroupId }) => resourceGroupId === id)?.environment;
    const path = pathsOf(groups.filter((row) => row.environment === environment)).get(id);
    const owner = owners.find(
      (each) => path !== undefined && each.environment === environment && each.root === rootOf(path),
    );
    if (owner === undefined || path === undefined) return null;
    return { owner, path, title: `The group ${path} of the environment ${environment}` };
  };
  if (write.kind === 'GlobalProperty') return periodChange(write, owners);
  if (write.kind === 'Selector') {
    const own = write.before === null ? null : ownedGroup(write.before.resourceGroupId);
    const next = write.row === null ? null : ownedGroup(write.row.resourceGroupId);
    return selectorChange(write, own, next);
  }
  const own = write.before === null ? null : ownedGroup(write.before.resourceGroupId);
  const above = write.row?.parent == null ? null : ownedGroup(write.row.parent);
  return groupChange(write, own, above);
}

function groupChange(
  { before, row }: Extract<GroupWrite, { readonly kind: 'ResourceGroup' }>,
  own: OwnedGroup | null,
  above: OwnedGroup | null,
): DeclaredChange | null {
  if (own === null) {
    if (row === null || above === null) return null;
    const { owner, title, path } = above;
    if (before !== null) {
      if (before.parent === row.parent) return null;
      const fix = 'a group that is there cannot be moved below it by REST: delete it, and create it there';
      throw declaredBy(owner, { title, field: 'parent' }, fix);
    }
    if (row.environment !== owner.environment) {
      const message = `The environment must be ${owner.environment}, as that of the parent.`;
      throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'environment' });
    }
    const add = (group: FileGroup) => withSubGroups(group, [...subGroupsOf(group), fileGroup(row, [])]);
    return { owner, title, field: 'parent', edit: editGroup(path, add) };
  }
  const { owner, title, path } = own;
  for (const field of ['name', 'parent', 'environment'] as const) {
    if (row === null || row[field] === before?.[field]) continue;
    const fix = `change its ${field} there, or delete the group and create another one`;
    throw declaredBy(owner, { title, field }, fix);
  }
  const edit = editGroup(path, (group) => (row === null || before === null ? null : withColumns(group, row, before)));
  return { owner, title, field: 'resourceGroupId', edit };
}

function editGroup(path: string, edit: (group: FileGroup) => FileGroup | null): DeclaredChange['edit'] {
  return (spec) => {
    if (findGroup(spec.rootGroups, path) === null) return null;
    return { spec: { ...spec, rootGroups: withGroup(spec.rootGroups, path, edit) } };
  };
}

const texts = Object.keys(selectorTextColumns) as SelectorText[];

/** True if a selector has a priority and texts. */
function isSelector(
  selector: DeclaredSelector['texts'],
  priority: number,
  { priority: other, texts: own }: DeclaredSelector,
) {
  return priority === other && texts.every((field) => selector[field] === own[field]);
}

/** Row of a declared selector among those of its group; null: not there. */
export function rowOfSelector(rows: readonly SelectorRow[], declared: DeclaredSelector): SelectorRow | null {
  return rows.find((row) => isSelector(row, row.priority, declared)) ?? null;
}

function selectorChange(
  { before, row }: Extract<GroupWrite, { readonly kind: 'Selector' }>,
  own: OwnedGroup | null,
  next: OwnedGroup | null,
): DeclaredChange | null {
  const target = next ?? own;
  if (target === null) return null;
  const { owner, title, path } = target;
  const isMoved =
    before !== null &&
    row !== null &&
    (own === null || next === null || nameOfOwner(own.owner) !== nameOfOwner(next.owner));
  if (isMoved) {
    const fix = 'a selector is moved only among the groups of one resource: delete it, and create it there';
    throw declaredBy((own ?? target).owner, { title: (own ?? target).title, field: 'update.resourceGroupId' }, fix);
  }
  const declared = (spec: Spec) => declaredRows(spec, spec.firstPriority ?? null).selectors;
  const isBefore = (each: DeclaredSelector) =>
    before !== null && each.path === own?.path && isSelector(before, before.priority, each);
  const edit: DeclaredChange['edit'] = (spec) => {
    if (row === null) {
      const stays = declared(spec).map((each) => !isBefore(each));
      return { spec: { ...spec, selectors: spec.selectors.filter((_, index) => stays[index]) } };
    }
    if (findGroup(spec.rootGroups, path) === null) return null;
    const checked = checkFileSelector(fileSelector(row, path, []));
    const wanted = checked.ok ? checked.value : fileSelector(row, path, []);
    const from = declared(spec).findIndex(isBefore);
    const highest = highestPriority(spec, spec.firstPriority ?? null);
    const { selectors, index } = withSelector(spec.selectors, from, wanted, row.priority, highest);
    const changed = { ...spec, selectors };
    return { spec: changed, selector: declared(changed)[index] };
  };
  return { owner, title, field: 'resourceGroupId', edit };
}

function periodChange(
  { before, row }: Extract<GroupWrite, { readonly kind: 'GlobalProperty' }>,
  owners: readonly GroupOwner[],
): DeclaredChange | null {
  if ((row ?? before)?.name !== PERIOD) return null;
  const title = `The property ${PERIOD}`;
  const [owner, ...others] = owners.filter(({ root }) => root === PERIOD_ROOT);
  if (owner === undefined) return null;
  if (others.length > 0) {
    const names = [owner, ...others].map(nameOfOwner).join(', ');
    const message = `${title} is declared by several resources: ${names}; change it there.`;
    throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
  }
  const edit: DeclaredChange['edit'] = ({ cpuQuotaPeriod, ...spec }) => {
    if (cpuQuotaPeriod === undefined) return null;
    return { spec: row?.value == null ? spec : { ...spec, cpuQuotaPeriod: row.value } };
  };
  return { owner, title, field: 'name', edit };
}
