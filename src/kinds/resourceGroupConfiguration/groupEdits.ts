import { GatewayError } from '../../model/errors.ts';
import type { GlobalPropertyRow } from '../../model/globalProperty.ts';
import { type DeclaredSelector, declaredRows, rootOf } from '../../model/groupsFile/declaredGroups.ts';
import {
  checkFileSelector,
  type FileGroup,
  fileGroup,
  limitsOf,
  type SelectorTexts,
  selectorTextNames,
} from '../../model/groupsFile/groupFields.ts';
import { fileSelector, type GroupsFile, PERIOD, pathsOf } from '../../model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import type { SelectorRow } from '../../model/selector.ts';
import { type GroupOwner, PERIOD_ROOT } from '../../store/declaredGroups.ts';
import type { GroupWrite } from '../../store/resourceGroupStore.ts';
import { RESOURCE_GROUP_CONFIGURATION } from './spec.ts';

/** A spec that is edited: a copy. */
export interface EditedSpec extends Omit<GroupsFile, 'rootGroups' | 'selectors' | 'cpuQuotaPeriod'> {
  rootGroups: FileGroup[];
  selectors: GroupsFile['selectors'][number][];
  cpuQuotaPeriod?: string;
  firstPriority?: number;
}

/** A change of a row that a resource declares, as a change of its spec. */
export interface GroupEdit {
  readonly owner: GroupOwner;
  /** The object for messages. */
  readonly title: string;
  /** Field of the call that names the row. */
  readonly field: string;
  /** Changes the spec. Returns the row as it is declared then; null: deleted, undefined: the spec did not have it. */
  readonly apply: (spec: EditedSpec) => GroupWrite['row'] | undefined;
}

/** A resource for messages. */
export function nameOfOwner({ namespace, name }: Pick<GroupOwner, 'namespace' | 'name'>): string {
  return `${RESOURCE_GROUP_CONFIGURATION} ${namespace}/${name}`;
}

/** Rejection of a change of a row that a resource declares. @param fix what to do instead */
export function declaredBy({ owner, title, field }: Omit<GroupEdit, 'apply'>, fix: string): GatewayError {
  return new GatewayError('EG_CONFLICT', `${title} belongs to the ${nameOfOwner(owner)}; ${fix}.`, { field });
}

interface OwnedGroup extends Omit<GroupEdit, 'apply'> {
  readonly path: string;
}

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
    const path = pathsOf(groups.filter((each) => each.environment === environment)).get(id ?? 0);
    if (path === undefined) return null;
    const owner = owners.find((each) => each.environment === environment && each.root === rootOf(path));
    const title = `The group ${path} of the environment ${environment}`;
    return owner === undefined ? null : { owner, path, title, field: 'resourceGroupId' };
  };
  if (kind === 'GlobalProperty') return (row ?? before)?.name === PERIOD ? periodEdit(row, owners) : null;
  const own = ownedGroup(before?.resourceGroupId);
  if (kind === 'Selector') return selectorEdit(before, row, own, ownedGroup(row?.resourceGroupId));
  if (own !== null && before !== null) return changedGroup(own, before, row);
  const above = ownedGroup(row?.parent);
  return row === null || above === null ? null : newGroup({ ...above, field: 'parent' }, before, row);
}

function newGroup(above: OwnedGroup, before: ResourceGroupRow | null, row: ResourceGroupRow): GroupEdit | null {
  if (before?.parent === row.parent) return null;
  if (before !== null) {
    throw declaredBy(above, 'a group that is there cannot be moved below it by REST: delete it, and create it there');
  }
  const { environment } = above.owner;
  if (row.environment !== environment) {
    const message = `The environment must be ${environment}, as that of the parent.`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'environment' });
  }
  return {
    ...above,
    apply: ({ rootGroups }) => {
      const parent = findGroup(rootGroups, above.path)?.group;
      if (parent === undefined) return undefined;
      parent.subGroups = [...(parent.subGroups ?? []), fileGroup(row, [])];
      return row;
    },
  };
}

function changedGroup(own: OwnedGroup, before: ResourceGroupRow, row: ResourceGroupRow | null): GroupEdit {
  for (const field of ['name', 'parent', 'environment'] as const) {
    if (row === null || row[field] === before[field]) continue;
    throw declaredBy({ ...own, field }, `change its ${field} there, or delete the group and create another one`);
  }
  return {
    ...own,
    apply: ({ rootGroups }) => {
      const { siblings, group } = findGroup(rootGroups, own.path) ?? {};
      if (siblings === undefined || group === undefined) return undefined;
      if (row === null) siblings.splice(siblings.indexOf(group), 1);
      else setLimits(group, before, row);
      return row;
    },
  };
}

/** Finds a group by its path, with the list that it is in. */
function findGroup(
  siblings: FileGroup[],
  path: string,
): { readonly siblings: FileGroup[]; readonly group: FileGroup } | null {
  const [name, ...below] = path.split('.');
  const group = siblings.find((each) => each.name === name);
  if (group === undefined) return null;
  return below.length === 0 ? { siblings, group } : findGroup(group.subGroups ?? [], below.join('.'));
}

/** Sets the columns of a group that a call changes. The other fields stay as they are written. */
function setLimits(group: FileGroup, before: ResourceGroupRow, row: ResourceGroupRow): void {
  const fields: Record<string, unknown> = group;
  for (const field of Object.keys(limitsOf(row)) as (keyof ReturnType<typeof limitsOf>)[]) {
    if (row[field] === before[field]) continue;
    if (row[field] === null) delete fields[field];
    else fields[field] = row[field];
    if (field === 'hardConcurrencyLimit') delete group.maxRunning;
  }
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
  const apply: GroupEdit['apply'] = (spec) => {
    const isBefore = (each: DeclaredSelector) =>
      before !== null && each.path === own?.path && isSelector(before, { ...each.texts, priority: each.priority });
    const declared = declaredSelectors(spec);
    if (row === null) {
      spec.selectors = spec.selectors.filter((_, index) => !isBefore(declared[index] as DeclaredSelector));
      return null;
    }
    if (findGroup(spec.rootGroups, target.path) === null) return undefined;
    const highest = spec.firstPriority ?? declared.length;
    const present = declared.findIndex(isBefore);
    // A new one comes after those of its priority, one in place of another where its priority is.
    if (present !== -1) spec.selectors.splice(present, 1);
    const index = Math.max(0, Math.min(spec.selectors.length, highest - row.priority + (present === -1 ? 1 : 0)));
    const wanted = fileSelector(row, target.path, []);
    const checked = checkFileSelector(wanted);
    spec.selectors.splice(index, 0, checked.ok ? checked.value : wanted);
    const { priority, texts } = declaredSelectors(spec)[index] as DeclaredSelector;
    return { ...row, ...texts, priority };
  };
  return { ...target, apply };
}

function declaredSelectors(spec: EditedSpec): readonly DeclaredSelector[] {
  return declaredRows(spec, spec.firstPriority ?? null).selectors;
}

/** True if two rows have the same priority and conditions. */
export function isSelector(a: SelectorTexts & Pick<SelectorRow, 'priority'>, b: typeof a): boolean {
  return a.priority === b.priority && selectorTextNames.every((name) => a[name] === b[name]);
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
  const apply: GroupEdit['apply'] = (spec) => {
    if (spec.cpuQuotaPeriod === undefined) return undefined;
    if (row?.value == null) delete spec.cpuQuotaPeriod;
    else spec.cpuQuotaPeriod = row.value;
    return row;
  };
  return { owner, title, field: 'name', apply };
}
