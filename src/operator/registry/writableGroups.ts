import type { ResourceGroupConfigurationSpec } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError, type Problem } from '../../model/errors.ts';
import { type DeclaredSelector, declaredRows, highestPriority } from '../../model/groupsFile/declaredGroups.ts';
import {
  findGroup,
  type PlacedSelector,
  subGroupsOf,
  withColumns,
  withGroup,
  withOtherSelector,
  withSelector,
  withSubGroups,
} from '../../model/groupsFile/fileEdits.ts';
import { PERIOD } from '../../model/groupsFile/groupChanges.ts';
import { checkFileSelector, type FileSelector } from '../../model/groupsFile/groupFields.ts';
import { fileGroup, fileSelector } from '../../model/groupsFile/storedGroups.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import {
  type SelectorColumns,
  type SelectorRow,
  type SelectorText,
  selectorTextColumns,
} from '../../model/selector.ts';
import type {
  GlobalPropertyRepository,
  ResourceGroupRepository,
  ResourceGroupStore,
  SelectorRepository,
} from '../../store/resourceGroupStore.ts';
import { nameTaken, requireUnused } from '../../store/resourceGroups.ts';
import { newestGroupWarning } from '../../store/selectors.ts';
import type { GroupClaim } from '../../store/store.ts';
import type { ChangeResult, DeclaredChange } from './declaredGroupWrites.ts';
import { declaredBy, GroupOwners, nameOfClaim, type OwnedGroup } from './groupOwners.ts';

type Spec = ResourceGroupConfigurationSpec;
type Claims = () => Promise<readonly GroupClaim[]>;
type Change = (change: DeclaredChange) => Promise<ChangeResult>;

/**
 * The tables of a database as calls change them: what a resource declares by a change of the resource, all else as it is.
 * @param claims of resources in this database, as they are now
 */
export function writableGroups(store: ResourceGroupStore, claims: Claims, change: Change): ResourceGroupStore {
  return {
    declared: store.declared,
    groups: writableRows(store, claims, change),
    selectors: writableSelectors(store, claims, change),
    properties: writableProperties(store, claims, change),
  };
}

/** Null: no resource declares anything in this database. */
async function ownersOf({ groups }: ResourceGroupStore, claims: Claims): Promise<GroupOwners | null> {
  const present = await claims();
  return present.length === 0 ? null : new GroupOwners(await groups.all(), present);
}

function writableRows(store: ResourceGroupStore, claims: Claims, change: Change): ResourceGroupRepository {
  const { groups } = store;
  /** The row of a path after a change. */
  const written = async (claim: GroupClaim, path: string): Promise<ResourceGroupRow> => {
    const row = new GroupOwners(await groups.all(), []).at(claim.environment, path);
    if (row !== null) return row;
    throw new GatewayError('EG_CONFLICT', `The group ${path} was deleted meanwhile; look at the groups again.`);
  };
  return {
    all: () => groups.all(),
    get: (id) => groups.get(id),
    create: async (columns) => {
      const owners = columns.parent === null ? null : await ownersOf(store, claims);
      const parent = columns.parent === null ? null : (owners?.of(columns.parent) ?? null);
      if (owners === null || parent === null) return await groups.create(columns);
      const { claim, title } = parent;
      if (columns.environment !== claim.environment) {
        const message = `The environment must be ${claim.environment}, as that of the parent.`;
        throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'environment' });
      }
      const path = `${parent.path}.${columns.name}`;
      const same = owners.at(claim.environment, path);
      if (same !== null) throw nameTaken(same.resourceGroupId);
      const edit = (spec: Spec): Spec | null =>
        withEditedGroup(spec, parent.path, (group) =>
          withSubGroups(group, [...subGroupsOf(group), fileGroup(columns, [])]),
        );
      const { warnings, isPending } = await change({ claim, title, field: 'parent', edit });
      // It has no id that could be answered.
      if (isPending) throw new GatewayError('EG_CONFLICT', warnings.join(' '));
      return { row: await written(claim, path), warnings };
    },
    update: async (row) => {
      const owners = await ownersOf(store, claims);
      const own = owners?.of(row.resourceGroupId) ?? null;
      if (owners === null || own === null) {
        mustNotMoveBelow(row, owners);
        return await groups.update(row);
      }
      const { claim, title, path, row: before } = own;
      for (const field of ['name', 'parent', 'environment'] as const) {
        if (row[field] === before[field]) continue;
        throw declaredBy(claim, title, field, `change its ${field} there, or delete the group and create another one`);
      }
      const edit = (spec: Spec): Spec | null => withEditedGroup(spec, path, (group) => withColumns(group, row, before));
      const { warnings, isPending } = await change({ claim, title, field: 'resourceGroupId', edit });
      return { row: isPending ? row : await written(claim, path), warnings, before };
    },
    delete: async (id) => {
      const owners = await ownersOf(store, claims);
      const own = owners?.of(id) ?? null;
      if (owners === null || own === null) return await groups.delete(id);
      const { claim, title, path, row: before } = own;
      const children = owners.rows.filter(({ parent }) => parent === id).map(({ name }) => name);
      const selectors = (await store.selectors.all(id)).length;
      requireUnused(id, children, selectors);
      const edit = (spec: Spec): Spec | null => {
        const group = findGroup(spec.rootGroups, path);
        if (group === null) return null;
        const names = subGroupsOf(group).map(({ name }) => name);
        requireUnused(id, names, spec.selectors.filter((selector) => selector.group === path).length);
        return { ...spec, rootGroups: withGroup(spec.rootGroups, path, () => null) };
      };
      await change({ claim, title, field: 'resourceGroupId', edit });
      return before;
    },
  };
}

/** A group with a row cannot become one of a resource, which would get a row of its own. */
function mustNotMoveBelow({ resourceGroupId, parent }: ResourceGroupRow, owners: GroupOwners | null): void {
  const above = parent === null ? null : (owners?.of(parent) ?? null);
  const before = owners?.row(resourceGroupId) ?? null;
  if (above === null || before === null || before.parent === parent) return;
  const fix = 'a group that is there cannot be moved below it by REST: delete it, and create it there';
  throw declaredBy(above.claim, above.title, 'parent', fix);
}

function withEditedGroup(spec: Spec, path: string, edit: Parameters<typeof withGroup>[2]): Spec | null {
  if (findGroup(spec.rootGroups, path) === null) return null;
  return { ...spec, rootGroups: withGroup(spec.rootGroups, path, edit) };
}

const texts = Object.keys(selectorTextColumns) as SelectorText[];
const sameTexts = (a: Readonly<Record<SelectorText, string | null>>, b: typeof a): boolean =>
  texts.every((field) => a[field] === b[field]);
/** As the tables are compared; `id` only where it is given. */
const sameSelector = (wanted: SelectorRow, row: SelectorRow): boolean =>
  wanted.priority === row.priority && (wanted.id === null || wanted.id === row.id) && sameTexts(wanted, row);

function writableSelectors(store: ResourceGroupStore, claims: Claims, change: Change): SelectorRepository {
  const { selectors, declared } = store;
  /**
   * Puts a selector into the spec of a resource.
   * @param place where; null: in none of its places
   */
  const put = async (
    { claim, title, path, row: group }: OwnedGroup,
    selector: SelectorColumns,
    prefix: string,
    place: (spec: Spec, selector: FileSelector) => PlacedSelector | null,
  ) => {
    await declared.requireColumns(selector, prefix);
    const wanted = fileSelectorOf(selector, path, prefix);
    let stored: DeclaredSelector | undefined;
    const edit = (spec: Spec): Spec | null => {
      const placed = findGroup(spec.rootGroups, path) === null ? null : place(spec, wanted);
      if (placed === null) return null;
      const changed = { ...spec, selectors: placed.selectors };
      stored = declaredSelectors(changed)[placed.index];
      return changed;
    };
    const { warnings, isPending } = await change({ claim, title, field: `${prefix}resourceGroupId`, edit });
    const { priority, texts: columns } = stored ?? { priority: selector.priority, texts: selector };
    const columnsOf = (values: typeof columns) => Object.fromEntries(texts.map((field) => [field, values[field]]));
    const resourceGroupId = group.resourceGroupId;
    const there = (isPending ? [] : await selectors.all(resourceGroupId)).find(
      (row) => row.priority === priority && sameTexts(row, columns),
    );
    const row = there ?? ({ ...columnsOf(columns), resourceGroupId, priority, id: null } as SelectorRow);
    if (priority === selector.priority) return { row, warnings };
    const derived = `The priority is ${priority}, not ${selector.priority}: the ${nameOfClaim(claim)} numbers its selectors in their order.`;
    return { row, warnings: [derived, ...warnings] };
  };
  const added = (own: OwnedGroup, selector: SelectorColumns, prefix: string) =>
    put(own, selector, prefix, (spec, wanted) =>
      withSelector(spec.selectors, wanted, selector.priority, highestOf(spec)),
    );
  const replaced = (own: OwnedGroup, selector: SelectorColumns, prefix: string, indexIn: (spec: Spec) => number) =>
    put(own, selector, prefix, (spec, wanted) => {
      const from = indexIn(spec);
      const highest = highestOf(spec);
      if (from === -1) return withSelector(spec.selectors, wanted, selector.priority, highest);
      return withOtherSelector(spec.selectors, from, wanted, selector.priority, highest);
    });
  return {
    all: (id) => selectors.all(id),
    create: async (selector) => {
      const owners = await ownersOf(store, claims);
      const newest = owners?.rows.at(-1) ?? null;
      const own = owners?.of(selector.resourceGroupId ?? newest?.resourceGroupId ?? 0) ?? null;
      if (own === null) return await selectors.create(selector);
      const { resourceGroupId, name } = own.row;
      const { row, warnings } = await added(own, { ...selector, resourceGroupId }, '');
      if (selector.resourceGroupId !== null) return { row, warnings };
      return { row, warnings: [newestGroupWarning(resourceGroupId, name), ...warnings] };
    },
    update: async (current, update) => {
      const owners = await ownersOf(store, claims);
      const own = owners?.of(current.resourceGroupId) ?? null;
      const next = owners?.of(update.resourceGroupId) ?? null;
      if (own === null && next === null) return await selectors.update(current, update);
      const before = (await selectors.all(current.resourceGroupId)).find((row) => sameSelector(current, row)) ?? null;
      const isOfSame = own !== null && next !== null && keyOf(own.claim) === keyOf(next.claim);
      if (before !== null && !isOfSame) {
        const { claim, title } = (own ?? next) as OwnedGroup;
        const fix = 'a selector is moved only among the groups of one resource: delete it, and create it there';
        throw declaredBy(claim, title, 'update.resourceGroupId', fix);
      }
      if (next === null) return await selectors.update(current, update);
      const isOne = (each: DeclaredSelector): boolean =>
        (before !== null || current.id === null) &&
        each.path === own?.path &&
        each.priority === current.priority &&
        sameTexts(each.texts, current);
      const indexIn = (spec: Spec) => declaredSelectors(spec).findIndex(isOne);
      return { ...(await replaced(next, update, 'update.', indexIn)), before };
    },
    replaceFirst: async (selector) => {
      const owners = await ownersOf(store, claims);
      const own = owners?.of(selector.resourceGroupId) ?? null;
      if (own === null) return await selectors.replaceFirst(selector);
      const [before = null] = await selectors.all(selector.resourceGroupId);
      const indexIn = (spec: Spec) => spec.selectors.findIndex(({ group }) => group === own.path);
      return { ...(await replaced(own, selector, '', indexIn)), before };
    },
    delete: async (selector) => {
      const owners = await ownersOf(store, claims);
      const own = owners?.of(selector.resourceGroupId) ?? null;
      if (own === null) return await selectors.delete(selector);
      const rows = await selectors.all(selector.resourceGroupId);
      if (!rows.some((row) => sameSelector(selector, row))) return 0;
      const { claim, title, path } = own;
      let deleted = 0;
      const edit = (spec: Spec): Spec => {
        const staying = declaredSelectors(spec).map(
          (each) => each.path !== path || each.priority !== selector.priority || !sameTexts(each.texts, selector),
        );
        deleted = staying.filter((stays) => !stays).length;
        return { ...spec, selectors: spec.selectors.filter((_, index) => staying[index]) };
      };
      const { isPending } = await change({ claim, title, field: 'resourceGroupId', edit });
      // One that the resource does not declare is there as somebody else wrote it.
      return deleted > 0 || isPending ? deleted : await selectors.delete(selector);
    },
  };
}

const keyOf = ({ namespace, name }: GroupClaim): string => `${namespace}/${name}`;
const highestOf = (spec: Spec): number => highestPriority(spec, spec.firstPriority ?? null);
const declaredSelectors = (spec: Spec): readonly DeclaredSelector[] =>
  declaredRows(spec, spec.firstPriority ?? null).selectors;

/** A selector as a spec has it. @param prefix of a field in messages */
function fileSelectorOf(selector: SelectorColumns, path: string, prefix: string): FileSelector {
  const problems: Problem[] = [];
  const checked = checkFileSelector(fileSelector({ ...selector, id: null }, path, problems));
  const [problem] = checked.ok ? problems : checked.problems;
  if (checked.ok && problem === undefined) return checked.value;
  const { field = '', message = '' } = problem ?? {};
  throw new GatewayError('EG_MALFORMED', `${prefix}${field} ${message}`, { field: `${prefix}${field}` });
}

function writableProperties(store: ResourceGroupStore, claims: Claims, change: Change): GlobalPropertyRepository {
  const { properties } = store;
  const title = `The property ${PERIOD}`;
  const holders = async (name: string): Promise<readonly GroupClaim[]> =>
    name === PERIOD ? (await claims()).filter(({ period }) => period !== null) : [];
  /** The only resource that declares a property; null: none does. */
  const holder = async (name: string): Promise<GroupClaim | null> => {
    const [first = null, ...others] = await holders(name);
    if (first === null || others.length === 0) return first;
    const names = [first, ...others].map(nameOfClaim).join(', ');
    const message = `${title} is declared by several resources: ${names}; change it there.`;
    throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
  };
  const set = async (claim: GroupClaim, value: string | null): Promise<ChangeResult> => {
    const edit = (spec: Spec): Spec | null => {
      const { cpuQuotaPeriod, ...rest } = spec;
      if (cpuQuotaPeriod === undefined) return null;
      return value === null ? rest : { ...rest, cpuQuotaPeriod: value };
    };
    return await change({ claim, title, field: 'name', edit });
  };
  return {
    all: () => properties.all(),
    get: (name) => properties.get(name),
    create: async (property) => {
      const [first] = await holders(property.name);
      if (first !== undefined) throw declaredBy(first, title, 'name', 'update it instead');
      await properties.create(property);
    },
    update: async (property) => {
      const claim = await holder(property.name);
      if (claim === null) return await properties.update(property);
      const before = await properties.get(property.name);
      await set(claim, property.value);
      return before ?? property;
    },
    delete: async (name) => {
      const claim = await holder(name);
      if (claim === null) return await properties.delete(name);
      const before = await properties.get(name);
      const { isPending } = await set(claim, null);
      // It stays where other groups have CPU limits, and is nobody's then.
      if (!isPending) await properties.delete(name);
      return before;
    },
  };
}
