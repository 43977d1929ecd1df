import { isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsProgram.ts';
import { databaseTitle, type GroupDrift } from '../../kinds/resourceGroupConfiguration/groupTargets.ts';
import { resourceGroupConfiguration } from '../../kinds/resourceGroupConfiguration/kind.ts';
import {
  RESOURCE_GROUP_CONFIGURATION,
  type ResourceGroupConfigurationSpec,
} from '../../kinds/resourceGroupConfiguration/spec.ts';
import { groupsProblems } from '../../kinds/resourceGroupConfiguration/validation.ts';
import { GatewayError } from '../../model/errors.ts';
import {
  type DeclaredSelector,
  declaredRows,
  findGroup,
  highestPriority,
  PERIOD,
  pathsOf,
  rootOf,
  subGroupsOf,
  withColumns,
  withGroup,
  withSelector,
  withSubGroups,
} from '../../model/groupsFile/declaredGroups.ts';
import { checkFileSelector, type FileGroup } from '../../model/groupsFile/groupFields.ts';
import { fileGroup, fileSelector } from '../../model/groupsFile/storedGroups.ts';
import { keyText, type ResourceKey, type ResourceStatus } from '../../model/resource.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import { type SelectorText, selectorTextColumns } from '../../model/selector.ts';
import { type GroupOwner, type GroupOwnerRepository, PERIOD_ROOT } from '../../store/declaredGroups.ts';
import type { GroupWrite, ResourceGroupStore, SchemaStores } from '../../store/resourceGroupStore.ts';
import type { GroupApplier } from '../reconcile/groupApplier.ts';
import { SerialWork } from '../reconcile/serialWork.ts';
import {
  type DeclaredResource,
  declaredResource,
  type ResourceReference,
  type ResourceWrites,
} from './resourceWrites.ts';

/** A change, and the resource that it went to; null: to the tables alone. */
export type AppliedGroupWrite = GroupWrite & { readonly resource: ResourceReference | null };

/** The tables of resource groups as calls use them (docs/resource-groups.md#by-rest). */
export type GroupTables = Pick<GroupWrites, 'use' | 'change' | 'of'>;

/** Rows of a database that a resource owns, for one environment. */
export interface DeclaredGroupRows {
  readonly namespace: string;
  /** `metadata.name` */
  readonly name: string;
  readonly environment: string;
  /** Groups with a row; their selectors are the resource's as well. */
  readonly resourceGroupIds: readonly number[];
  /** Names of the global properties that the resource declares. */
  readonly properties: readonly string[];
  /** External changes, as in the status; null: none. */
  readonly drift: GroupDrift | null;
  /** Null: the resource was deleted, and its rows are about to be. */
  readonly resource: DeclaredResource | null;
}

/** The tables of resource groups by REST: rows that a resource declares are changed in the resource. */
export class GroupWrites {
  readonly #stores: SchemaStores;
  readonly #owners: Pick<GroupOwnerRepository, 'all'>;
  readonly #applier: Pick<GroupApplier, 'apply' | 'targets'>;
  readonly #writes: ResourceWrites;
  readonly #ownDatabase: string | null;
  /** Changes of a database are made one after the other. */
  readonly #work = new SerialWork();

  /** @param ownDatabase name of the gateway's own database */
  constructor(
    stores: SchemaStores,
    owners: Pick<GroupOwnerRepository, 'all'>,
    applier: Pick<GroupApplier, 'apply' | 'targets'>,
    writes: ResourceWrites,
    ownDatabase: string | null,
  ) {
    this.#stores = stores;
    this.#owners = owners;
    this.#applier = applier;
    this.#writes = writes;
    this.#ownDatabase = ownDatabase;
  }

  use<T>(database: string | null, work: (store: ResourceGroupStore) => Promise<T>): Promise<T> {
    return this.#stores.use(database, work);
  }

  /**
   * Changes the tables, or the resource that declares the row and then the tables. Rejects as `use` and `ResourceWrites.change` do,
   * with EG_MALFORMED if the resource would not be valid, with EG_CONFLICT if the change is possible in the resource only.
   * @param force takes fields over from other managers
   */
  async change(
    database: string | null,
    work: (store: ResourceGroupStore) => Promise<GroupWrite>,
    force: boolean,
  ): Promise<AppliedGroupWrite> {
    const place = database === this.#ownDatabase ? null : database;
    const ownersOf = async () => (await this.#owners.all()).filter((owner) => owner.database === place);
    return await this.#stores.use(database, async (store) => {
      if ((await ownersOf()).length === 0) return { ...(await work(store)), resource: null };
      return await this.#work.run(place ?? '', async () => {
        // The tables check the change, independent of the owner of the row.
        const { groups, write } = await store.preview(async (tables) => ({
          groups: await tables.groups.all(),
          write: await work(tables),
        }));
        const change = declaredChange(write, groups, await ownersOf());
        if (change === null) return { ...(await work(store)), resource: null };
        return await this.#changeResource(store, work, change, write, force);
      });
    });
  }

  async #changeResource(
    store: ResourceGroupStore,
    work: (store: ResourceGroupStore) => Promise<GroupWrite>,
    change: DeclaredChange,
    write: GroupWrite,
    force: boolean,
  ): Promise<AppliedGroupWrite> {
    const { owner } = change;
    const key = { kind: RESOURCE_GROUP_CONFIGURATION, namespace: owner.namespace, name: owner.name };
    this.#writes.controller.refreshNow();
    this.#requireActive(key, change);
    let selector: DeclaredSelector | undefined;
    const { resource } = await this.#writes.change(
      resourceGroupConfiguration,
      key,
      ({ spec }) => {
        const edited = change.edit(spec as unknown as ResourceGroupConfigurationSpec);
        if (edited === null) {
          throw declaredBy(owner, change, 'its spec does not have it any more, and the tables are about to follow');
        }
        const [problem] = groupsProblems(edited.spec);
        if (problem !== undefined) {
          const message = `The ${nameOfOwner(owner)} would not be valid: ${problem.field} ${problem.message}`;
          throw new GatewayError('EG_MALFORMED', message, { field: problem.field });
        }
        selector = edited.selector;
        return { ...edited.spec };
      },
      force,
    );
    const { warnings, isPending } = await this.#apply(key, owner);
    if (write.kind === 'Selector' && write.row !== null && selector !== undefined) {
      const { priority, texts: own } = selector;
      const rows = isPending ? [] : await store.selectors.all(write.row.resourceGroupId);
      const wanted = selector;
      const row = rows.find((each) => isSelector(each, each.priority, wanted)) ?? { ...write.row, ...own, priority };
      const derived = `The priority is ${priority}, not ${write.row.priority}: the ${nameOfOwner(owner)} numbers its selectors in their order.`;
      const others = priority === write.row.priority ? [] : [derived];
      return { ...write, row, resource, warnings: [...write.warnings, ...others, ...warnings] };
    }
    if (write.row === null) {
      // Rows that the resource did not declare, and a period without an owner.
      if (!isPending) await work(store);
      return { ...write, resource, warnings };
    }
    if (write.kind !== 'ResourceGroup') return { ...write, resource, warnings };
    // A new group has no id yet.
    if (isPending && write.before === null) throw new GatewayError('EG_CONFLICT', warnings.join(' '));
    const row = isPending ? write.row : await storedGroup(store, write.row);
    return { ...write, row, warnings: [...write.warnings, ...warnings], resource };
  }

  /** Rejects if the tables need not be as the resource declares. */
  #requireActive(key: ResourceKey, change: DeclaredChange): void {
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    if (!isGroupsOutcome(outcome))
      throw declaredBy(change.owner, change, 'that was deleted, and its groups go with it');
    if (outcome.declared !== null) return;
    const fix = outcome.paused
      ? 'that is paused; remove its annotation enginegateway.dev/paused first'
      : `that is not accepted: ${outcome.acceptance.message}`;
    throw declaredBy(change.owner, change, fix);
  }

  /** Writes a changed resource to the tables. */
  async #apply(
    key: ResourceKey,
    { database, environment }: GroupOwner,
  ): Promise<{ readonly warnings: readonly string[]; readonly isPending: boolean }> {
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    const title = nameOfOwner(key);
    const isWritten = `The change is in the ${title}, and not in the tables`;
    if (!isGroupsOutcome(outcome) || outcome.declared === null) {
      const reason = isGroupsOutcome(outcome) ? outcome.acceptance.message : 'it was deleted meanwhile';
      throw new GatewayError('EG_CONFLICT', `${isWritten}: ${reason}`);
    }
    const thrown = await this.#applier.apply(outcome, null).then(
      () => null,
      (error: unknown) => error,
    );
    const states = this.#applier.targets.of(key) ?? [];
    const own = states.find((state) => state.database === database && state.environment === environment);
    if (own === undefined) throw thrown ?? new GatewayError('EG_CONFLICT', `${isWritten}: it was deleted meanwhile`);
    if (own.failure !== null) {
      const message = `${isWritten} yet: ${own.failure.message}. It follows by itself; do not send it again.`;
      if (own.failure.reason === 'DatabaseUnavailable') return { warnings: [message], isPending: true };
      throw new GatewayError('EG_CONFLICT', message, { cause: thrown });
    }
    const warnings = states.flatMap(({ database: other, failure }) =>
      failure === null || other === database
        ? []
        : [`The ${title} is for ${databaseTitle(other)} as well: ${failure.message}`],
    );
    return { warnings, isPending: false };
  }

  /**
   * Owned rows of a database by namespace, name and environment.
   * @param database as `useSchema` names it; null: the gateway's own
   * @throws GatewayError as `SchemaStores.use`; EG_DATABASE_UNAVAILABLE
   */
  async of(database: string | null): Promise<readonly DeclaredGroupRows[]> {
    const place = database === this.#ownDatabase ? null : database;
    return await this.#stores.use(database, async ({ groups }) => {
      const owners = (await this.#owners.all()).filter((owner) => owner.database === place);
      if (owners.length === 0) return [];
      const rows = Map.groupBy(await groups.all(), ({ environment }) => environment);
      const byResource = Map.groupBy(owners, ({ namespace, name, environment }) =>
        JSON.stringify([namespace, name, environment]),
      );
      return [...byResource.values()].flatMap((own) => {
        const paths = pathsOf(rows.get(own[0]?.environment ?? '') ?? []);
        return this.#rowsOf(own, paths);
      });
    });
  }

  #rowsOf(own: readonly GroupOwner[], paths: ReadonlyMap<number, string>): DeclaredGroupRows[] {
    const [first] = own;
    if (first === undefined) return [];
    const { namespace, name, database, environment } = first;
    const roots = new Set(own.map(({ root }) => root));
    const key = { kind: RESOURCE_GROUP_CONFIGURATION, namespace, name };
    const outcome = this.#writes.controller.outcomes.get(keyText(key));
    return [
      {
        ...{ namespace, name, environment },
        resourceGroupIds: [...paths].flatMap(([id, path]) => (roots.has(rootOf(path)) ? [id] : [])),
        properties: roots.has(PERIOD_ROOT) ? [PERIOD] : [],
        drift: driftOf(this.#writes.source.get(key)?.status, database, environment),
        resource: isGroupsOutcome(outcome) ? declaredResource(outcome, this.#writes.source) : null,
      },
    ];
  }
}

async function storedGroup(store: ResourceGroupStore, row: ResourceGroupRow): Promise<ResourceGroupRow> {
  const rows = await store.groups.all();
  const stored = rows.find(
    (each) => each.parent === row.parent && each.name === row.name && each.environment === row.environment,
  );
  if (stored !== undefined) return stored;
  throw new GatewayError('EG_CONFLICT', `The group ${row.name} was deleted meanwhile; look at the groups again.`);
}

/** Drift of one database, as the status of a resource has it. */
function driftOf(status: ResourceStatus | undefined, database: string | null, environment: string): GroupDrift | null {
  const { databases = [] } = (status ?? {}) as {
    readonly databases?: readonly {
      readonly name?: string;
      readonly environment: string;
      readonly drift?: Omit<GroupDrift, 'count'> & { readonly rows: number };
    }[];
  };
  const drift = databases.find((each) => (each.name ?? null) === database && each.environment === environment)?.drift;
  if (drift === undefined) return null;
  const { at, repaired, rows: count, differences } = drift;
  return { at, repaired, count, differences };
}

type Spec = ResourceGroupConfigurationSpec;

/** A change of rows that a resource declares. */
interface DeclaredChange {
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
function nameOfOwner({ namespace, name }: Pick<GroupOwner, 'namespace' | 'name'>): string {
  return `${RESOURCE_GROUP_CONFIGURATION} ${namespace}/${name}`;
}

/** Rejection of a change of a row that a resource declares. @param fix what to do instead */
function declaredBy(
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
function declaredChange(
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
